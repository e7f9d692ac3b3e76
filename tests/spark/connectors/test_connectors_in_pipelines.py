"""Connectors through the real worker loop: killed, resumed at another parallelism, exactly once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate.core.spark_errors import BatchFailed
from headgate.planner import plan
from tests.support.harness import PipelineHarness


def _write_folder(folder: Path, files: int, rows: int) -> None:
    folder.mkdir()
    for number in range(files):
        path = folder / f"{number:03}.json"
        lines = [json.dumps({"n": number * rows + i, "k": i % 3}) for i in range(rows)]
        lines.insert(1, "not a row")
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_000 + number, 1_000 + number))


def test_folder_to_partitioned_parquet_survives_kills_and_rescaling(
    spark: SparkSession, tmp_path: Path
) -> None:
    _write_folder(tmp_path / "in", files=8, rows=10)
    graph = plan(
        f"""
        CREATE TABLE src (n BIGINT NOT NULL, k BIGINT) WITH (
            connector = 'filesystem', type = 'source', path = '{tmp_path / "in"}',
            format = 'json', bad_data = 'drop', 'source.read_mode' = 'bounded'
        );
        CREATE TABLE dst (n BIGINT, k BIGINT) WITH (
            connector = 'filesystem', type = 'sink', path = '{tmp_path / "out"}',
            format = 'parquet', partition_by = 'k'
        );
        INSERT INTO dst SELECT n, k FROM src;
        """
    )
    harness = PipelineHarness(spark, graph, tmp_path)
    first = harness.run(rows_per_batch=20, barrier_every=2, kill_at_batch=4)
    assert first.killed
    second = harness.run(rows_per_batch=20, barrier_every=1, parallelism=3, kill_at_batch=2)
    assert second.killed
    last = harness.run(rows_per_batch=20, parallelism=1)
    assert last.finished
    found = [
        (row["n"], row["k"], path.parent.name)
        for path in (tmp_path / "out").rglob("*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    ]
    assert sorted(found) == [(n, n % 10 % 3, f"k={n % 10 % 3}") for n in range(80)]
    assert last.progress.rows_bad > 0


def _apply(lines: list[dict[str, Any]]) -> dict[int, int]:
    table: dict[int, int] = {}
    for change in lines:
        before, after = change["before"], change["after"]
        key = (after or before)["k"]
        assert table.get(key) == (None if before is None else before["c"]), change
        if after is None:
            del table[key]
        else:
            table[key] = after["c"]
    return table


def test_changes_in_one_file_are_a_consistent_history_across_kills(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = plan(
        f"""
        CREATE TABLE impulse WITH (
            connector = 'impulse', message_count = 200, start_time = '2023-01-01'
        );
        CREATE TABLE dst (k BIGINT PRIMARY KEY, c BIGINT) WITH (
            connector = 'single_file', type = 'sink', path = '{tmp_path / "out.json"}',
            format = 'debezium_json'
        );
        INSERT INTO dst SELECT counter % 7, count(*) FROM impulse GROUP BY counter % 7;
        """
    )
    harness = PipelineHarness(spark, graph, tmp_path)
    assert harness.run(rows_per_batch=20, barrier_every=2, kill_at_batch=5).killed
    assert harness.run(rows_per_batch=20, barrier_every=3, parallelism=3, kill_at_batch=4).killed
    assert harness.run(rows_per_batch=20, parallelism=2).finished
    lines = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert _apply(lines) == {k: len(range(k, 200, 7)) for k in range(7)}
    # The worker has told its sink which generation began the file, and which one goes on in it.
    note = json.loads((tmp_path / ".out.json.headgate.json").read_text())
    assert note["generation"] == 1


CSV = """
CREATE TABLE src (id BIGINT, price BIGINT, note TEXT, amount BIGINT) WITH (
    connector = '{connector}', type = 'source', path = '{path}', format = 'csv'{more}
);
CREATE TABLE dst (id BIGINT, amount BIGINT) WITH (
    connector = 'single_file', type = 'sink', path = '{out}', format = 'json'
);
INSERT INTO dst SELECT id, amount FROM src;
"""


def test_csv_columns_that_nobody_reads_leave_the_others_in_their_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,price,note,amount\n1,x,y,10\n2,,,20\n")
    text = CSV.format(
        connector="filesystem",
        path=tmp_path / "in",
        more=", 'source.read_mode' = 'bounded'",
        out=tmp_path / "out.json",
    )
    assert PipelineHarness(spark, plan(text), tmp_path).run().finished
    lines = (tmp_path / "out.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "amount": 10},
        {"id": 2, "amount": 20},
    ]


@pytest.mark.parametrize("connector", ["single_file", "filesystem"])
def test_a_csv_header_in_another_order_is_refused_whatever_becomes_of_bad_rows(
    spark: SparkSession, tmp_path: Path, connector: str
) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "swapped.csv"
    file.write_text("id,amount,note,price\n1,10,x,7\n")
    text = CSV.format(
        connector=connector,
        path=file if connector == "single_file" else file.parent,
        more=", bad_data = 'drop'",
        out=tmp_path / "out.json",
    )
    with pytest.raises(BatchFailed) as raised:
        PipelineHarness(spark, plan(text), tmp_path).run()
    assert raised.value.code == "bad_data"
    assert "swapped.csv': the header names the columns of table src" in raised.value.message
    assert "found id, amount, note, price; expected id, price, note, amount" in raised.value.message
