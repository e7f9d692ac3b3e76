"""Updating joins through Spark: two sources, keys of different types, a further condition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import OperatorId
from headgate.operators import SinkSpec, UpdatingJoinSpec
from tests.spark.operators.pipeline import SINK, WAYS, Run, chain, col, source_spec, timestamps

LEFT, RIGHT = OperatorId("source-l"), OperatorId("source-r")
SPEC = UpdatingJoinSpec(
    left_keys=("k",),
    right_keys=("k",),
    left_columns=(col("id"), col("name", "concat('n', id)")),
    right_columns=(col("id"),),
    residual="l_id <= r_id",
    outputs=(col("l", "l_name"), col("r", "r_id")),
    ttl_ms=86_400_000,
)


def _side(count: int, kind: pa.DataType) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([None if i % 7 == 0 else i % 40 for i in range(count)], kind),
            "id": pa.array(range(count), pa.int64()),
            "ts": timestamps([i * 50_000 for i in range(count)]),
        }
    )


@pytest.mark.parametrize("way", WAYS)
def test_pairs_are_published_once_whatever_interrupts_them(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    left, right = _side(300, pa.int32()), _side(200, pa.int64())
    columns = [("id", "bigint"), ("ts", "timestamp")]
    graph = PipelineGraph(
        operators=(
            Operator(id=LEFT, spec=source_spec([("k", "int"), *columns])),
            Operator(id=RIGHT, spec=source_spec([("k", "bigint"), *columns])),
            Operator(id=OperatorId("join"), spec=SPEC, inputs=(LEFT, RIGHT)),
            Operator(
                id=SINK,
                spec=SinkSpec(table="o", connector="rows", options={}),
                inputs=(OperatorId("join"),),
            ),
        )
    )
    run = Run(spark, tmp_path, graph, {LEFT: left, RIGHT: right})
    run.finish(way, 60)
    expected = Counter(
        (f"n{i}", j)
        for i, one in enumerate(left["k"].to_pylist())
        for j, other in enumerate(right["k"].to_pylist())
        if one is not None and one == other and i <= j
    )
    assert Counter(run.changes("l", "r")) == expected


def test_a_join_of_an_operator_with_itself_reads_it_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    from headgate.operators import DeduplicateSpec

    columns = [("k", "bigint"), ("id", "bigint"), ("ts", "timestamp")]
    first = DeduplicateSpec(keys=(col("k"),), exprs=(col("k"), col("id")), ttl_ms=86_400_000)
    chained = chain(source_spec(columns), first)
    source, dedup, sink = chained.operators
    join = Operator(
        id=OperatorId("join"),
        spec=UpdatingJoinSpec(
            left_keys=("k % 3",),
            right_keys=("k % 3",),
            left_columns=(col("id"),),
            right_columns=(col("id"),),
            outputs=(col("l", "l_id"), col("r", "r_id")),
            ttl_ms=86_400_000,
        ),
        inputs=(dedup.id, dedup.id),
    )
    ends = Operator(id=sink.id, spec=sink.spec, inputs=(join.id,))
    graph = PipelineGraph(operators=(source, dedup, join, ends))
    run = Run(spark, tmp_path, graph, _side(60, pa.int64()))
    run.finish("straight", 25)
    keys = _side(60, pa.int64())["k"].to_pylist()
    firsts = {k: keys.index(k) for k in keys if k is not None}
    expected = Counter(
        (i, j) for a, i in firsts.items() for b, j in firsts.items() if a % 3 == b % 3
    )
    assert Counter(run.changes("l", "r")) == expected
