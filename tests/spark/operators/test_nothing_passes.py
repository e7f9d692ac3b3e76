"""Queries of which Spark can tell beforehand that nothing passes: they run like any other.

Spark's optimizer leaves out what cannot make a row. A source that is left out would not be seen to
move on, and a stateful operator that is left out would keep the state of yesterday.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.support.harness import PipelineHarness

TABLES = """
CREATE TABLE orders (id BIGINT NOT NULL, shop TEXT, at TIMESTAMP NOT NULL, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TABLE visits (id BIGINT NOT NULL, shop TEXT, at TIMESTAMP NOT NULL, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TEMPORARY TABLE shops (name TEXT PRIMARY KEY, city TEXT) WITH (
  connector = 'single_file', path = '{root}/shops.csv', format = 'csv');
CREATE TABLE output WITH (
  connector = 'single_file', path = '{output}', format = '{format}', type = 'sink');
"""
ROWS = 30
BROADCAST_BYTES = "spark.sql.autoBroadcastJoinThreshold"
NEVER = "WHERE 1 = 0"
UPDATING = f"SELECT n FROM (SELECT shop, count(*) AS n FROM orders {NEVER} GROUP BY shop)"
WINDOWED = (
    "SELECT shop, count(*) AS n, tumble(interval '10 seconds') AS w FROM {} {} GROUP BY shop, w"
)
SESSIONS = "SELECT count(*) AS n, session(interval '1 seconds') AS w FROM {} {} GROUP BY w"
MEDIANS = (
    "SELECT shop, median(id) AS n, tumble(interval '10 seconds') AS w FROM {} {} GROUP BY shop, w"
)
DISTINCT = WINDOWED.replace("count(*)", "count(DISTINCT id)")
JOINED = "SELECT a.n AS n, b.n AS m FROM ({}) a {} JOIN ({}) b ON a.w = b.w"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nothing")
    rows = [{"id": i, "shop": "ab"[i % 2], "at": f"2024-01-01T00:00:{i:02}Z"} for i in range(ROWS)]
    (folder / "orders.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "shops.csv").write_text("name,city\n")
    return folder


def run(
    spark: SparkSession, root: Path, tmp_path: Path, query: str, *, parallelism: int = 2
) -> tuple[list[dict[str, Any]], int]:
    """Run to the end in three micro-batches with a recovery; return the output and rows read."""
    form = "debezium_json" if query == UPDATING else "json"
    tables = TABLES.format(root=root, output=tmp_path / "output.json", format=form)
    graph = plan(f"{tables} INSERT INTO output {query};")
    harness = PipelineHarness(spark, graph, tmp_path)
    first = harness.run(parallelism=parallelism, rows_per_batch=15, stop_at_batch=1)
    last = harness.run(parallelism=parallelism)
    assert not first.failures
    assert not last.failures
    assert last.finished
    lines = (tmp_path / "output.json").read_text().splitlines()
    # A job counts on from its checkpoint.
    read = last.progress.rows_in
    return [json.loads(line) for line in lines], read


@pytest.mark.parametrize(
    "condition",
    [
        "1 = 0",
        "false",
        "NULL",
        "'a' = 'b'",
        "id IS NULL",
        "at IS NULL AND shop IS NOT NULL",
        "id = 1 AND id = 2",
        "id > 5 AND 1 = 0",
        "id IN (1, 2) AND NOT id IN (1, 2)",
        "upper(shop) = 'A' AND lower('A') <> 'a'",
    ],
)
def test_rows_are_counted_and_positions_move_on_whatever_the_condition(
    spark: SparkSession, root: Path, tmp_path: Path, condition: str
) -> None:
    output, read = run(spark, root, tmp_path, f"SELECT id FROM orders WHERE {condition}")
    assert output == []
    assert read == ROWS


EVERYTHING = {
    "window_of_nothing": (WINDOWED.format("orders", NEVER), 0),
    "nothing_of_windows": (f"SELECT * FROM ({WINDOWED.format('orders', '')}) {NEVER}", 0),
    "sessions": (f"SELECT n FROM ({SESSIONS.format('orders', '')}) {NEVER}", 0),
    "updating": (UPDATING, 0),
    "empty_branch": (
        f"SELECT id FROM orders {NEVER} UNION ALL SELECT id FROM orders WHERE id < 3",
        3,
    ),
    "empty_branch_of_windows": (
        f"SELECT n FROM ({WINDOWED.format('orders', '')}) {NEVER} "
        f"UNION ALL SELECT n FROM ({WINDOWED.format('visits', '')})",
        6,
    ),
    "join_with_nothing": (
        JOINED.format(WINDOWED.format("orders", ""), "", WINDOWED.format("visits", NEVER)),
        0,
    ),
    "left_join_with_nothing": (
        JOINED.format(WINDOWED.format("orders", ""), "LEFT", WINDOWED.format("visits", NEVER)),
        6,
    ),
    "join_never": (
        JOINED.format(WINDOWED.format("orders", ""), "", WINDOWED.format("visits", ""))
        + " AND 1 = 0",
        0,
    ),
    "updating_join": (
        f"SELECT o.id FROM orders o JOIN (SELECT id FROM visits {NEVER}) v ON o.id = v.id",
        0,
    ),
    "lookup": ("SELECT o.id, s.city FROM orders o JOIN shops s ON o.shop = s.name", 0),
    "join_of_nothing_with_distinct_values": (
        JOINED.format(WINDOWED.format("orders", NEVER), "", DISTINCT.format("visits", "")),
        0,
    ),
    "medians_joined": (
        JOINED.format(MEDIANS.format("orders", ""), "", MEDIANS.format("visits", NEVER)),
        0,
    ),
    "medians_joined_from_the_left": (
        JOINED.format(MEDIANS.format("orders", NEVER), "", MEDIANS.format("visits", "")),
        0,
    ),
}


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_operators_run_whether_or_not_anything_can_come_of_it(
    spark: SparkSession, root: Path, tmp_path: Path, name: str, parallelism: int
) -> None:
    query, rows = EVERYTHING[name]
    output, read = run(spark, root, tmp_path, query, parallelism=parallelism)
    assert len(output) == rows
    assert read == ROWS * (2 if "visits" in query else 1)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", [name for name in EVERYTHING if "join" in name])
def test_both_sides_of_a_join_run_also_if_spark_takes_them_for_large(
    spark: SparkSession, root: Path, tmp_path: Path, name: str, parallelism: int
) -> None:
    """It then sorts and merges them, and looks at neither before the other has rows."""
    spark.conf.set(BROADCAST_BYTES, "-1")
    try:
        query, rows = EVERYTHING[name]
        output, read = run(spark, root, tmp_path, query, parallelism=parallelism)
    finally:
        spark.conf.unset(BROADCAST_BYTES)
    assert len(output) == rows
    assert read == ROWS * (2 if "visits" in query else 1)
