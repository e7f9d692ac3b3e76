"""Updating aggregates through Spark: what is published adds up to the batch result."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.core.graph import Partial
from headgate.operators import UpdatingAggregateSpec
from tests.spark.operators.pipeline import WAYS, Run, chain, col, folded, source_spec, timestamps

COLUMNS = [("k", "string"), ("v", "bigint"), ("ts", "timestamp")]
DAY_MS = 86_400_000
BY_KEY = UpdatingAggregateSpec(
    keys=(col("k"),),
    partials=(
        Partial(name="_rows", expr="count(1)", merge="sum"),
        Partial(name="p_sum", expr="sum(v)", merge="sum"),
        Partial(name="p_bits", expr="bit_xor(v)", merge="bit_xor"),
    ),
    outputs=(col("c", "_rows"), col("s", "p_sum"), col("b", "p_bits"), col("big", "_rows > 60")),
    ttl_ms=DAY_MS,
)
# An aggregate over the aggregate: groups gain and lose members as counts change.
BY_COUNT = UpdatingAggregateSpec(
    keys=(col("r", "c % 3"),),
    rows=(col("k"), col("s")),
    outputs=(
        col("keys", "count(DISTINCT k)"),
        col("low", "min(s)"),
        col("mid", "median(s) + 1"),
    ),
    ttl_ms=DAY_MS,
    input_updating=True,
)
GLOBAL = UpdatingAggregateSpec(
    keys=(),
    partials=(
        Partial(name="_rows", expr="count(1)", merge="sum"),
        Partial(name="p_max", expr="max(v)", merge="max"),
    ),
    outputs=(col("c", "_rows"), col("m", "p_max")),
    ttl_ms=DAY_MS,
)
GLOBAL_ROWS = UpdatingAggregateSpec(
    keys=(),
    rows=(col("v"),),
    outputs=(col("c", "count(DISTINCT v)"), col("m", "max(v)")),
    ttl_ms=DAY_MS,
)


def _rows(count: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([None if i % 13 == 0 else f"key{i % 7}" for i in range(count)]),
            "v": pa.array([None if i % 11 == 0 else i % 50 for i in range(count)], pa.int64()),
            "ts": timestamps([i * 50_000 for i in range(count)]),
        }
    )


def _by_key(rows: pa.Table) -> dict[Any, tuple[int, int, int]]:
    found: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, 0])
    for key, value in zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True):
        found[key][0] += 1
        found[key][1] += value or 0
        found[key][2] ^= value or 0
    return {key: tuple(values) for key, values in found.items()}


def test_published_changes_of_partials_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    rows = _rows(500)
    run = Run(spark, tmp_path, chain(source_spec(COLUMNS), BY_KEY), rows)
    run.finish("straight", 150)
    expected = {(k, c, s, b, c > 60) for k, (c, s, b) in _by_key(rows).items()}
    assert folded(run.changes("k", "c", "s", "b", "big", "_op")) == Counter(expected)


@pytest.mark.parametrize("way", WAYS)
def test_aggregate_over_an_aggregate_is_exact_whatever_interrupts_it(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    rows = _rows(500)
    run = Run(spark, tmp_path, chain(source_spec(COLUMNS), BY_KEY, BY_COUNT), rows)
    run.finish(way, 100)
    groups: dict[int, list[int]] = defaultdict(list)
    names: dict[int, set[Any]] = defaultdict(set)
    for key, (count, total, _) in _by_key(rows).items():
        groups[count % 3].append(total)
        names[count % 3] |= {key} - {None}
    expected = {(r, len(names[r]), min(g), median(g) + 1) for r, g in groups.items()}
    assert folded(run.changes("r", "keys", "low", "mid", "_op")) == Counter(expected)


@pytest.mark.parametrize("spec", [GLOBAL, GLOBAL_ROWS], ids=["partials", "rows"])
def test_an_aggregate_without_keys_has_one_row(
    spark: SparkSession, tmp_path: Path, spec: UpdatingAggregateSpec
) -> None:
    rows = _rows(300)
    run = Run(spark, tmp_path, chain(source_spec(COLUMNS), spec), rows)
    run.finish("killed", 70)
    values = [v for v in rows["v"].to_pylist() if v is not None]
    count = 300 if spec is GLOBAL else len(set(values))
    changes = run.changes("c", "m", "_op")
    assert folded(changes) == Counter({(count, max(values)): 1})
    assert changes[0][-1] == 1


def test_a_pair_of_equal_outputs_is_no_change(spark: SparkSession, tmp_path: Path) -> None:
    spec = UpdatingAggregateSpec(
        keys=(col("k"),),
        partials=(Partial(name="_rows", expr="count(1)", merge="sum"),),
        outputs=(col("some", "_rows > 0"),),
        ttl_ms=DAY_MS,
    )
    run = Run(spark, tmp_path, chain(source_spec(COLUMNS), spec), _rows(60))
    run.finish("straight", 20)
    assert sorted(run.changes("k", "some", "_op"), key=str) == sorted(
        [(k, True, 1) for k in {None, *(f"key{i}" for i in range(7))}], key=str
    )
