"""The single_file source: a file of lines, cut anywhere, replayed exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import UserError
from headgate.testing import columns, cut_positions, open_source, read_rows

COLUMNS = columns(n="bigint!", s="string")


def write_numbers(path: Path, count: int) -> None:
    rows = (json.dumps({"n": n, "s": "x" * (n % 13)}) for n in range(count))
    path.write_text("".join(f"{row}\n" for row in rows))


def test_cuts_count_rows_and_what_waits(tmp_path: Path) -> None:
    write_numbers(tmp_path / "in.json", 100)
    source = open_source("single_file", {"path": str(tmp_path / "in.json")}, COLUMNS)
    cut = source.plan_cut(source.initial_position(), 40, 0)
    assert (cut.rows, cut.finished) == (40, False)
    assert cut.lag_rows is not None
    assert 50 <= cut.lag_rows <= 70
    last = source.plan_cut(cut.end, 1_000, 0)
    assert (last.rows, last.lag_rows, last.finished) == (60, 0, True)
    after = source.plan_cut(last.end, 1_000, 0)
    assert (after.end, after.rows, after.finished) == (last.end, 0, True)


def test_the_last_line_may_lack_its_newline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"n":1}\n{"n":2}')
    source = open_source("single_file", {"path": str(tmp_path / "in.json")}, COLUMNS)
    assert [r.n for r in read_rows(spark, source, cut_positions(source, [1]))] == [1, 2]


def test_an_empty_file_is_finished_at_once(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text("")
    source = open_source("single_file", {"path": str(tmp_path / "in.json")}, COLUMNS)
    assert cut_positions(source, [10]) == [0]


def test_a_csv_header_is_no_row_in_any_cut(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("n,s\n" + "".join(f"{n},x\n" for n in range(20)))
    source = open_source("single_file", {"path": str(path), "format": "csv"}, COLUMNS)
    first = source.plan_cut(source.initial_position(), 1, 0)
    assert first.rows == 1
    rows = read_rows(spark, source, cut_positions(source, [1, 7]), parts=3)
    assert [r.n for r in rows] == list(range(20))


def test_lines_that_are_not_utf8_are_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(b'{"n":1}\n{"n":2,"s":"\xff"}\n{"n":3}\n')
    options = {"path": str(path), "bad_data": "drop"}
    source = open_source("single_file", options, COLUMNS)
    rows = read_rows(spark, source, cut_positions(source, [10]))
    assert [(r.n, r["_bad"]) for r in rows] == [(1, False), (None, True), (3, False)]


def test_a_missing_file_is_named() -> None:
    source = open_source("single_file", {"path": "/nowhere/in.json"}, COLUMNS)
    with pytest.raises(UserError, match="there is no file '/nowhere/in"):
        source.plan_cut(0, 10, 0)


def test_a_file_that_was_replaced_by_a_shorter_one_is_an_error(tmp_path: Path) -> None:
    write_numbers(tmp_path / "in.json", 100)
    source = open_source("single_file", {"path": str(tmp_path / "in.json")}, COLUMNS)
    end = source.plan_cut(0, 90, 0).end
    write_numbers(tmp_path / "in.json", 10)
    with pytest.raises(UserError, match="it was replaced"):
        source.plan_cut(end, 10, 0)
