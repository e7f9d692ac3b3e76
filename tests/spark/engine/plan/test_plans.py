"""Plans made of few messages give what PySpark's own steps give."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headgate.engine.plan import plans
from headgate.engine.plan.plans import aggregated, filtered, mapped, selected


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 10, 1, 2).selectExpr("id", "id % 3 AS k", "CAST(id AS STRING) AS `a b`")


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in df.collect())


def test_a_selection_is_select_expr(numbers: DataFrame) -> None:
    # A star, an expression without a name, a quoted name, and an earlier item of the same list.
    exprs = ("*", "id + 1", "`a b` AS text", "k * 2 AS twice", "twice + 1 AS odd")
    made, usual = selected(numbers, *exprs), numbers.selectExpr(*exprs)
    assert made.schema == usual.schema
    assert rows(made) == rows(usual)


def test_a_generator_keeps_the_names_of_its_columns(numbers: DataFrame) -> None:
    expr = "inline(array(named_struct('x', id, 'y', k), named_struct('x', -id, 'y', k)))"
    made, usual = selected(numbers, "k", expr), numbers.selectExpr("k", expr)
    assert made.columns == usual.columns == ["k", "x", "y"]
    assert rows(made) == rows(usual)


def test_a_filter_and_an_aggregation(numbers: DataFrame) -> None:
    few = filtered(numbers, "id > 1")
    made = aggregated(few, ["k % 2 AS g"], ["sum(id) AS s", "count(1) AS n"])
    numbers.createOrReplaceTempView("numbers")
    usual = "SELECT k % 2 AS g, sum(id) AS s, count(1) AS n FROM numbers WHERE id > 1 GROUP BY 1"
    assert made.columns == ["g", "s", "n"]
    assert rows(made) == rows(numbers.sparkSession.sql(usual))


def test_an_aggregation_of_everything_has_one_row(numbers: DataFrame) -> None:
    assert rows(aggregated(filtered(numbers, "id < 0"), [], ["count(1) AS n"])) == [(0,)]


def test_columns_are_dropped_by_name_and_absent_ones_do_not_matter(numbers: DataFrame) -> None:
    assert selected(numbers, "*").drop("a b", "absent").columns == ["id", "k"]


def test_steps_of_pyspark_may_follow(numbers: DataFrame) -> None:
    made = selected(numbers, "id", "k").union(selected(numbers, "id", "k")).repartition(1)
    assert len(rows(made.where("k = 1"))) == 6


def test_one_frame_may_be_used_twice_in_a_join(numbers: DataFrame) -> None:
    once = selected(numbers, "id AS n", "k")
    twice = selected(numbers, "id AS n", "k")
    for other in (once, twice):
        joined = once.alias("l").join(other.alias("r"), "n")
        assert len(joined.collect()) == 10


def test_a_python_function_sees_the_columns_and_gives_the_schema(numbers: DataFrame) -> None:
    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch.schema.names == ["id", "a b"]
            values = [2 * v for v in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"d": values}, schema=pa.schema({"d": pa.int64()}))

    made = mapped(selected(numbers, "id", "`a b`"), ["id", "a b"], doubled, "d long")
    assert rows(made) == [(2 * n,) for n in range(10)]


def test_a_large_python_function_travels_as_a_broadcast(
    numbers: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "BROADCAST_BYTES", 100)
    ballast = "x" * 10_000

    def weighed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"n": pa.array([len(ballast)], pa.int64())})

    assert set(rows(mapped(numbers, ["id", "k", "a b"], weighed, "n long"))) == {(10_000,)}


def test_an_unknown_column_is_an_error_of_analysis(numbers: DataFrame) -> None:
    with pytest.raises(AnalysisException, match="nowhere"):
        selected(filtered(numbers, "nowhere > 1"), "id").collect()
