"""Rows that cannot be read: named with their place, counted, and kept in a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import BadDataError
from headgate.core.spark_errors import BatchFailed
from headgate.planner import plan
from tests.support.harness import PipelineHarness

COLUMNS = "id BIGINT NOT NULL, amount BIGINT, at TIMESTAMP"
PIPELINE = """
CREATE TABLE orders ({columns}, WATERMARK FOR at) WITH (
    connector = 'single_file', type = 'source', path = '{path}', format = '{format}',
    bad_data = '{bad_data}');
CREATE TABLE sums (start TIMESTAMP, n BIGINT, total BIGINT) WITH (
    connector = 'single_file', type = 'sink', path = '{out}/sums.json', format = 'json');
CREATE TABLE small (id BIGINT) WITH (
    connector = 'single_file', type = 'sink', path = '{out}/small.json', format = 'json');
CREATE TABLE dead (position TEXT, RAW TEXT, reason TEXT, source TEXT{more}) WITH (
    connector = 'single_file', type = 'sink', path = '{out}/dead.json', format = 'json');
INSERT INTO sums SELECT w.start, n, total FROM (
    SELECT tumble(INTERVAL '1 minute') AS w, count(*) AS n, sum(amount) AS total
    FROM orders GROUP BY 1);
INSERT INTO small SELECT id FROM orders WHERE amount < 5 AND id > 0;
{insert}
"""
ROWS = 60
BAD = {
    7: ('{"id": 7, "amount": "many"}', "column 'amount': expected BIGINT, found the text \"many\""),
    20: ('{"amount": 1}', "column 'id' is NOT NULL, found nothing"),
    33: (
        '{"id": 33, "at": "yesterday"}',
        "column 'at': expected TIMESTAMP, found the text \"yesterday\"",
    ),
    34: ('{"id": 34', "not JSON: "),
    51: ("[3]", "expected a JSON object, found the number 3"),
}


def write_orders(path: Path, bad: dict[int, tuple[str, str]] = BAD) -> None:
    good = (
        {"id": n, "amount": n % 9, "at": f"2024-01-01T00:{n // 10:02}:{n % 60:02}Z"}
        for n in range(ROWS)
    )
    lines = [bad[n][0] if n in bad else json.dumps(row) for n, row in enumerate(good)]
    path.write_text("\n".join(lines) + "\n")


def pipeline(folder: Path, out: Path, **given: str) -> str:
    values = {"columns": COLUMNS, "path": folder / "orders.json", "out": out, "more": ""}
    values |= {"format": "json", "bad_data": "dead", "insert": ""}
    out.mkdir(exist_ok=True)
    return PIPELINE.format_map(values | given)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_dead_letters_are_written_once_whatever_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_orders(tmp_path / "orders.json")
    # Another INSERT goes into the same table; the time of a letter is that of its cut.
    insert = "INSERT INTO dead SELECT 'nowhere', 'a row of its own', '', '', at FROM orders "
    insert += "WHERE id = 0;"
    more = {"more": ", at TIMESTAMP", "insert": insert}
    graph = plan(pipeline(tmp_path, tmp_path / "a", **more))
    straight = PipelineHarness(spark, graph, tmp_path / "a")
    first = straight.run(rows_per_batch=1_000)
    assert first.finished
    # Each row is read once: the counts of a micro-batch are not those of its consumers together.
    assert (first.progress.rows_in, first.progress.rows_bad) == (ROWS, len(BAD))
    assert first.progress.operators["source-orders"].rows_bad == len(BAD)
    graph = plan(pipeline(tmp_path, tmp_path / "b", **more))
    killed = PipelineHarness(spark, graph, tmp_path / "b")
    assert killed.run(rows_per_batch=7, barrier_every=2, kill_at_batch=4).killed
    assert killed.run(rows_per_batch=9, barrier_every=1, parallelism=3, kill_at_batch=3).killed
    last = killed.run(rows_per_batch=11, parallelism=1)
    assert last.finished

    def letters(out: str) -> list[dict[str, Any]]:
        return sorted(lines_of(tmp_path / out / "dead.json"), key=lambda r: r["RAW"])

    assert letters("a") == letters("b")
    found = {row["RAW"]: row for row in letters("a")}
    assert len(found) == len(letters("a")) == len(BAD) + 1
    assert found.pop("a row of its own")["position"] == "nowhere"
    start = 0
    for number, line in enumerate((tmp_path / "orders.json").read_text().splitlines()):
        if number in BAD:
            row, (_, reason) = found[line], BAD[number]
            place = f"{tmp_path}/orders.json:{number + 1} (byte {start})"
            assert (row["position"], row["source"]) == (place, "orders")
            assert row["reason"].startswith(reason)
            assert row["at"] == "2023-11-14T22:13:20"
        start += len(line) + 1
    for name in ("sums.json", "small.json"):
        a, b = lines_of(tmp_path / "a" / name), lines_of(tmp_path / "b" / name)
        assert sorted(map(str, a)) == sorted(map(str, b))
    assert sum(row["n"] for row in lines_of(tmp_path / "a" / "sums.json")) == ROWS - len(BAD)


def test_what_is_dropped_or_late_is_counted_with_examples(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_orders(tmp_path / "orders.json")
    with (tmp_path / "orders.json").open("a") as file:
        file.write('{"id": 99, "amount": 1, "at": "2024-01-01T00:00:30Z"}\n')
    graph = plan(pipeline(tmp_path, tmp_path / "out", bad_data="drop"))
    ended = PipelineHarness(spark, graph, tmp_path / "out").run(rows_per_batch=10)
    progress = ended.progress
    assert (progress.rows_bad, progress.rows_late) == (len(BAD), 1)
    assert progress.operators["source-orders"].rows_bad == len(BAD)
    bad = [row for row in progress.dropped if row.why == "bad"]
    assert [(row.position.partition(" ")[0], row.raw) for row in bad] == [
        (f"{tmp_path}/orders.json:{n + 1}", BAD[n][0]) for n in (7, 20)
    ] + [(bad[2].position.partition(" ")[0], bad[2].raw)]
    assert "orders.json:" in bad[2].position
    assert [row.reason for row in bad[:2]] == [BAD[7][1], BAD[20][1]]
    (late,) = [row for row in progress.dropped if row.why == "late"]
    assert late.time_us == 1_704_067_200_000_000
    assert late.late_us is not None
    assert 0 < late.late_us < 600_000_000


@pytest.mark.parametrize(
    ("format_name", "lines", "place", "reason"),
    [
        ("json", ['{"id":1}', '{"id":"2"}'], ":2 (byte 9)", "'id': expected BIGINT, found the te"),
        ("json", ['{"id":1}', '{"id":2,"at":"x"}'], ":2 (byte 9)", "'at': expected TIMESTAMP"),
        ("csv", ["id,amount,at", "1,x,"], ":2 (byte 13)", "'amount': expected BIGINT, found the"),
        ("csv", ["id,amount,at", "1,2"], ":2 (byte 13)", "expected 3 values (id, amount, at), f"),
    ],
)
def test_the_row_that_stops_a_pipeline_is_named(
    spark: SparkSession, tmp_path: Path, format_name: str, lines: list[str], place: str, reason: str
) -> None:
    (tmp_path / "orders.json").write_text("\n".join(lines) + "\n")
    text = pipeline(tmp_path, tmp_path / "out", format=format_name, bad_data="fail")
    with pytest.raises(BatchFailed) as raised:
        PipelineHarness(spark, plan(text), tmp_path / "out").run()
    assert (raised.value.code, raised.value.domain) == (BadDataError.code, BadDataError.domain)
    assert f"table orders: {tmp_path}/orders.json{place}" in raised.value.message
    assert reason in raised.value.message
    assert lines[1] in raised.value.message


def test_changes_and_lines_without_fields_have_dead_letters_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = [
        '{"before": null, "after": {"id": 1}, "op": "c"}',
        '{"before": null, "after": {"id": 1}, "op": "t"}',
        '{"before": null, "after": {"id": "x"}, "op": "c"}',
    ]
    (tmp_path / "changes.json").write_text("\n".join(changes) + "\n")
    (tmp_path / "lines.txt").write_bytes(b"good\n\xff bad\n")
    graph = plan(
        f"""
        CREATE TABLE changes (id BIGINT PRIMARY KEY) WITH (
            connector = 'single_file', type = 'source', path = '{tmp_path}/changes.json',
            format = 'debezium_json', bad_data = 'dead');
        CREATE TABLE lines (value TEXT) WITH (
            connector = 'single_file', type = 'source', path = '{tmp_path}/lines.txt',
            format = 'raw_string', bad_data = 'DEAD');
        CREATE TABLE now (id BIGINT) WITH (connector = 'single_file', type = 'sink',
            path = '{tmp_path}/now.json', format = 'debezium_json');
        CREATE TABLE texts (value TEXT) WITH (connector = 'single_file', type = 'sink',
            path = '{tmp_path}/texts.json', format = 'json');
        CREATE TABLE dead WITH (connector = 'single_file', type = 'sink',
            path = '{tmp_path}/dead.json', format = 'json');
        INSERT INTO now SELECT id FROM changes;
        INSERT INTO texts SELECT value FROM lines;
        """
    )
    assert PipelineHarness(spark, graph, tmp_path).run().finished
    found = sorted((r["source"], r["raw"], r["reason"]) for r in lines_of(tmp_path / "dead.json"))
    assert found == [
        ("changes", changes[2], "after: column 'id': expected BIGINT, found the text \"x\""),
        (
            "changes",
            changes[1],
            "a truncate: the rows that it removes are not in the stream",
        ),
        ("lines", "\\xff bad", "not UTF-8"),
    ]
    assert lines_of(tmp_path / "now.json") == [{"before": None, "after": {"id": 1}, "op": "c"}]
    assert lines_of(tmp_path / "texts.json") == [{"value": "good"}]
