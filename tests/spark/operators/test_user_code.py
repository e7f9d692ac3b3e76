"""User code in Spark: the process operator, scalar functions and aggregates, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import ErrorDomain, UdfError
from headgate.core.graph import Column, PipelineGraph, Udf
from headgate.core.spark_errors import BatchFailed
from headgate.engine.batch.udfs import register_udfs
from headgate.operators import ProcessSpec, ProjectSpec, UpdatingAggregateSpec
from tests.spark.operators.pipeline import SECOND, Run, chain, col, folded, source_spec, timestamps

COLUMNS = [("k", "bigint"), ("v", "bigint"), ("ts", "timestamp")]
TOTALS = '''
import pyarrow as pa
import pyarrow.compute as pc
from headgate.process import ProcessOperator


class Totals(ProcessOperator):
    """Adds up per key; gives the sum a second after a key's last row."""

    state_schema = pa.schema([("total", pa.int64())])

    def process(self, rows, context):
        if pc.any(pc.equal(rows["v"], 13)).as_py():
            raise ValueError("thirteen")
        sums = rows.group_by("k").aggregate([("v", "sum"), ("_timestamp", "max")])
        old = context.get_state(sums)["total"]
        total = pc.add(sums["v_sum"], pc.fill_null(old, 0))
        context.put_state(pa.table({"k": sums["k"], "total": total}))
        later = pc.add(sums["_timestamp_max"].cast(pa.int64()), 1_000_000)
        context.set_timer(sums, later.cast(pa.timestamp("us", tz="UTC")))

    def on_timer(self, keys, context):
        total = context.get_state(keys)["total"]
        context.delete_state(keys)
        return pa.table({"k": keys["k"], "total": total})
'''
UDFS = """
from headgate.udf import udaf, udf
import pyarrow.compute as pc


@udf
def half(number: int) -> float:
    return 1 / (number - 13) * (number - 13) * number / 2


@udf
def known(number: int | None) -> str:
    return "nothing" if number is None else str(number)


@udf(vectorized=True)
def doubled(number: int) -> int:
    return pc.multiply(number, 2)


@udaf
def spread(numbers: list[int]) -> int:
    return max(numbers) - min(numbers)
"""
FUNCTIONS = (
    Udf(name="half", arguments=("bigint",), returns="double"),
    Udf(name="known", arguments=("bigint",), returns="string"),
    Udf(name="doubled", arguments=("bigint",), returns="bigint"),
    Udf(name="spread", arguments=("array<bigint>",), returns="bigint", aggregate=True),
)


def _rows(values: list[int | None]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([i % 4 for i in range(len(values))], pa.int64()),
            "v": pa.array(values, pa.int64()),
            "ts": timestamps([i * SECOND // 10 for i in range(len(values))]),
        }
    )


def _process(folder: Path) -> PipelineGraph:
    file = folder / "totals.py"
    file.write_text(TOTALS)
    spec = ProcessSpec(
        file=str(file),
        attribute="Totals",
        keys=(col("k"),),
        exprs=(col("v"),),
        output=(Column(name="k", type="bigint"), Column(name="total", type="int")),
        code=TOTALS,
    )
    return chain(source_spec(COLUMNS, delay_seconds=0), spec)


@pytest.mark.parametrize("way", ["killed", "rescaled"])
def test_state_and_timers_of_user_code_survive(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    run = Run(spark, tmp_path, _process(tmp_path), _rows(list(range(100, 300))))
    # What the job was made of is what runs, whatever has become of the file.
    (tmp_path / "totals.py").write_text("raise ImportError('edited')")
    run.finish(way, 40)
    expected = [(k, sum(range(100 + k, 300, 4))) for k in range(4)]
    assert sorted(run.changes("k", "total")) == expected


def test_a_process_operator_that_raises_is_the_users_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, _process(tmp_path), _rows([1, 2, 13]))
    with pytest.raises(BatchFailed, match=r"Totals\.process raised ValueError: thirteen") as failed:
        run.finish("straight", 10)
    assert failed.value.domain == ErrorDomain.USER
    assert failed.value.operator == "process-0"
    assert "'k': " in failed.value.message


def test_functions_compute_over_nulls_batches_and_lists(
    spark: SparkSession, tmp_path: Path
) -> None:
    values = [5, None, 7, 8, 1, 2, None, 4]
    project = ProjectSpec(
        exprs=(
            col("k", "k % 2"),
            col("h", "half(v)"),
            col("n", "known(v)"),
            col("d", "doubled(v)"),
            col("v"),
        )
    )
    spec = UpdatingAggregateSpec(
        keys=(col("k"),),
        rows=(col("v"), col("h"), col("n"), col("d")),
        outputs=(
            col("s", "spread(collect_list(v)) + 0"),
            col("h", "sum(h)"),
            col("n", "max(n)"),
            col("d", "sum(d)"),
        ),
        ttl_ms=86_400_000,
    )
    graph = chain(source_spec(COLUMNS), project, spec)
    graph = PipelineGraph(operators=graph.operators, udf_source=UDFS, udfs=FUNCTIONS)
    run = Run(spark, tmp_path, graph, _rows(values))
    run.finish("straight", 4)
    assert set(folded(run.changes("k", "s", "h", "n", "d", "_op"))) == {
        (0, 6, 6.5, "nothing", 26),
        (1, 6, 7.0, "nothing", 28),
    }


def test_a_function_that_raises_is_the_users_error(spark: SparkSession, tmp_path: Path) -> None:
    graph = chain(source_spec(COLUMNS), ProjectSpec(exprs=(col("h", "half(v)"),)))
    graph = PipelineGraph(operators=graph.operators, udf_source=UDFS, udfs=FUNCTIONS)
    run = Run(spark, tmp_path, graph, _rows([1, 13, 2]))
    with pytest.raises(BatchFailed, match=r"function half raised ZeroDivisionError.* on \(13,\)"):
        run.finish("straight", 10)


def test_a_file_without_a_declared_function_is_refused_at_the_start(spark: SparkSession) -> None:
    graph = PipelineGraph(operators=(), udf_source="", udfs=FUNCTIONS[:1])
    with pytest.raises(UdfError, match="defines no function 'half'"):
        register_udfs(spark, graph)
