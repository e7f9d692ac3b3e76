"""Changes: at most one per key and micro-batch, and never one that cannot have happened."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headgate.testing import open_sink
from tests.support.connectors import prepared_batches, stage_epochs, staged_bytes


def changes(
    spark: SparkSession, rows: list[tuple[Any, ...]], schema: str, key: tuple[str, ...], **more: Any
) -> list[dict[str, Any]]:
    """Return the lines that a sink writes for these rows, sorted."""
    options = {"path": "/unused", "format": "debezium_json", **more}
    sink = open_sink("single_file", options, primary_key=key, updating=True)
    batches = prepared_batches(sink, spark.createDataFrame(rows, schema))
    (epoch,) = stage_epochs(sink, [batches])
    lines = [json.loads(line) for line in staged_bytes(epoch).decode().splitlines()]
    return sorted(lines, key=lambda line: json.dumps(line))


SCHEMA = "k bigint, v bigint, _timestamp timestamp, _op int"
T = datetime(2023, 1, 1)


def test_insert_update_and_delete_become_one_change_per_key(spark: SparkSession) -> None:
    rows = [
        (1, 10, T, 1),
        (2, 20, T, -1),
        (2, 21, T, 1),
        (3, 30, T, -1),
    ]
    assert changes(spark, rows, SCHEMA, ("k",)) == [
        {"before": None, "after": {"k": 1, "v": 10}, "op": "c"},
        {"before": {"k": 2, "v": 20}, "after": {"k": 2, "v": 21}, "op": "u"},
        {"before": {"k": 3, "v": 30}, "after": None, "op": "d"},
    ]


def test_changes_that_cancel_out_are_not_written(spark: SparkSession) -> None:
    rows = [(1, 10, T, 1), (1, 10, T, -1), (2, 5, T, -1), (2, 5, T, 1)]
    assert changes(spark, rows, SCHEMA, ("k",)) == []


def test_a_chain_of_changes_becomes_its_two_ends(spark: SparkSession) -> None:
    rows = [(1, a, T, -1) for a in range(5)] + [(1, a + 1, T, 1) for a in range(5)]
    assert changes(spark, rows, SCHEMA, ("k",)) == [
        {"before": {"k": 1, "v": 0}, "after": {"k": 1, "v": 5}, "op": "u"}
    ]


def test_without_a_key_a_row_is_its_own_key(spark: SparkSession) -> None:
    rows = [(1, 10, T, 1), (1, 10, T, 1), (1, 11, T, -1)]
    assert changes(spark, rows, SCHEMA, ()) == [
        {"before": None, "after": {"k": 1, "v": 10}, "op": "c"},
        {"before": None, "after": {"k": 1, "v": 10}, "op": "c"},
        {"before": {"k": 1, "v": 11}, "after": None, "op": "d"},
    ]


def test_keys_and_values_may_be_null(spark: SparkSession) -> None:
    rows = [(None, None, T, -1), (None, 1, T, 1)]
    assert changes(spark, rows, SCHEMA, ("k",)) == [
        {"before": {"k": None, "v": None}, "after": {"k": None, "v": 1}, "op": "u"}
    ]


def test_timestamps_are_milliseconds_at_every_depth_and_binary_is_base64(
    spark: SparkSession,
) -> None:
    schema = "k bigint, ts timestamp, n struct<t:timestamp>, raw binary, _op int"
    rows = [(1, T, (T,), bytearray(b"\x00\x01"), 1)]
    (change,) = changes(spark, rows, schema, ("k",))
    millis = 1_672_531_200_000
    assert change["after"] == {"k": 1, "ts": millis, "n": {"t": millis}, "raw": "AAE="}
    readable = {"json.timestamp_format": "rfc3339"}
    (change,) = changes(spark, rows, schema, ("k",), **readable)
    assert change["after"]["ts"] == "2023-01-01T00:00:00"


def test_an_append_only_stream_creates(spark: SparkSession) -> None:
    assert changes(spark, [(1, 2)], "k bigint, v bigint", ("k",)) == [
        {"before": None, "after": {"k": 1, "v": 2}, "op": "c"}
    ]


@settings(deadline=None, max_examples=5)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 3)), max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_changes_applied_to_a_table_give_the_table(
    spark: SparkSession, batches: list[list[tuple[int, int | None]]]
) -> None:
    """Every batch sets keys to values (None = gone); the reader only sees the changes."""
    truth: dict[int, int] = {}
    copy: dict[int, int] = {}
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        for key, value in batch:
            if key in truth:
                rows.append((key, truth.pop(key), T, -1))
            if value is not None:
                truth[key] = value
                rows.append((key, value, T, 1))
        if not rows:
            continue
        found = changes(spark, rows, SCHEMA, ("k",))
        assert len({(c["after"] or c["before"])["k"] for c in found}) == len(found)
        for change in found:
            before, after = change["before"], change["after"]
            assert (
                change["op"]
                == {(True, False): "c", (False, False): "u", (False, True): "d"}[
                    before is None, after is None
                ]
            )
            key = (after or before)["k"]
            assert copy.get(key) == (None if before is None else before["v"])
            if after is None:
                del copy[key]
            else:
                copy[key] = after["v"]
    assert copy == truth


def test_the_same_key_is_always_in_the_same_subtask(spark: SparkSession) -> None:
    sink = open_sink("preview", {}, primary_key=("k",), updating=True)
    places: dict[int, set[int]] = {}
    for turn in range(3):
        rows = [(k, turn, T, 1) for k in range(turn, 40)]
        frame = sink.prepare(spark.createDataFrame(rows, SCHEMA).repartition(3))
        assert frame.rdd.getNumPartitions() == 2
        for row in frame.selectExpr("after.k AS k", "spark_partition_id() AS p").collect():
            places.setdefault(row.k, set()).add(row.p)
    assert all(len(found) == 1 for found in places.values())


def test_prepare_plans_one_exchange(spark: SparkSession) -> None:
    sink = open_sink("preview", {}, primary_key=("k",), updating=True)
    frame = sink.prepare(spark.createDataFrame([(1, 2, T, 1)], SCHEMA))
    plan = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    assert plan.count("Exchange hashpartitioning") == 1


def test_staged_types_are_arrow_structs(spark: SparkSession) -> None:
    sink = open_sink("preview", {}, primary_key=("k",), updating=True)
    (batch,) = prepared_batches(sink, spark.createDataFrame([(1, 2, T, 1)], SCHEMA))
    assert batch.schema.names == ["before", "after", "op"]
    assert pa.types.is_struct(batch.schema.field("after").type)
