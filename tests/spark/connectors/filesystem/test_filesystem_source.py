"""The filesystem source: every file of a growing folder once, in the order of their times."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.connectors.base import KnowingSource, KnownRows, Source
from headgate.connectors.filesystem.position import FilePosition
from headgate.core.errors import BadDataError, InternalError, StorageError, UserError
from headgate.core.model import JsonValue
from headgate.core.spark_errors import source_error
from headgate.testing import columns, cut_positions, open_source, read_rows

COLUMNS = columns(n="bigint")


def write(path: Path, numbers: list[int], *, at: int | None = None) -> None:
    """Write a file of numbers in the format of its suffix, with a modification time in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"n": numbers, "unused": ["x"] * len(numbers)}), hidden)
    elif path.suffix == ".csv":
        hidden.write_text("n\n" + "".join(f"{n}\n" for n in numbers))
    else:
        hidden.write_text("".join(f'{{"n":{n}}}\n' for n in numbers))
    if at is not None:
        os.utime(hidden, (at, at))
    hidden.rename(path)


def source_of(folder: Path, format_name: str = "json", **options: Any) -> Source:
    return open_source(
        "filesystem",
        {"path": str(folder), "format": format_name, "source.poll_interval": "0s", **options},
        COLUMNS,
    )


def files_of(position: JsonValue) -> list[str]:
    return [f.path for f in FilePosition.parse(position).files]


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_files_are_read_in_order_of_time_then_name(
    spark: SparkSession, tmp_path: Path, suffix: str
) -> None:
    write(tmp_path / f"c.{suffix}", [1, 2], at=100)
    write(tmp_path / f"b.{suffix}", [5], at=200)
    write(tmp_path / f"a.{suffix}", [3, 4], at=200)
    write(tmp_path / f"deep/er/z.{suffix}", [0], at=50)
    source = source_of(tmp_path, suffix, **{"source.read_mode": "bounded"})
    positions = cut_positions(source, [2])
    names = [files_of(p) for p in positions[1:]]
    order = [f"deep/er/z.{suffix}", f"c.{suffix}", f"a.{suffix}", f"b.{suffix}"]
    assert [name for cut in names for name in cut] == order
    rows = read_rows(spark, source, positions, parts=3)
    assert [r.n for r in rows] == [0, 1, 2, 3, 4, 5]


def test_a_cut_is_replayed_from_its_position_alone(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.json", [1], at=100)
    source = source_of(tmp_path)
    cut = source.plan_cut(source.initial_position(), 10, 0)
    write(tmp_path / "b.json", [2], at=50)
    fresh = source_of(tmp_path)
    frame = fresh.read(spark, fresh.initial_position(), cut.end, 2)
    assert [r.n for r in frame.collect()] == [1]


def test_new_and_late_files_are_found_and_nothing_is_read_twice(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    position, seen = source.initial_position(), []
    arrivals = [("b", 200), ("c", 300), ("a", 100), ("z", 300), ("0", 1)]
    for name, at in arrivals:
        write(tmp_path / f"{name}.json", [1], at=at)
        cut = source.plan_cut(position, 10, 0)
        assert not cut.finished
        assert source.plan_cut(cut.end, 10, 0).end == cut.end
        position = cut.end
        seen += files_of(position)
    assert seen == [f"{name}.json" for name, _ in arrivals]
    assert source_of(tmp_path).plan_cut(position, 10, 0).end == position


def test_nothing_new_is_nothing_to_read(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    cut = source.plan_cut(source.initial_position(), 10, 0)
    assert (cut.end, cut.rows, cut.finished) == (source.initial_position(), 0, False)


def test_hidden_temporary_and_empty_files_are_left_alone(tmp_path: Path) -> None:
    for name in (".a.json", "_a.json", "_temporary/a.json", ".hidden/a.json"):
        write(tmp_path / name, [1])
    (tmp_path / "begun.json").touch()
    source = source_of(tmp_path)
    assert source.plan_cut(source.initial_position(), 10, 0).rows == 0
    write(tmp_path / "begun.json", [1])
    assert files_of(source.plan_cut(source.initial_position(), 10, 1).end) == ["begun.json"]


def test_only_files_that_match_the_pattern_are_read(tmp_path: Path) -> None:
    for name in ("2023/a.json", "2024/a.json", "2024/b.csv"):
        write(tmp_path / name, [1])
    source = source_of(tmp_path, **{"source.regex-pattern": r"^2024/.*\.json$"})
    assert files_of(source.plan_cut(source.initial_position(), 10, 0).end) == ["2024/a.json"]


def test_bounded_ends_with_the_files_of_the_start(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.json", [number], at=100 + number)
    options = {"source.read_mode": "bounded"}
    source = source_of(tmp_path, **options)
    first = source.plan_cut(source.initial_position(), 1, 0)
    write(tmp_path / "after.json", [9], at=500)
    # Even a worker that starts now knows where the end is.
    source = source_of(tmp_path, **options)
    second = source.plan_cut(first.end, 1, 0)
    third = source.plan_cut(second.end, 1, 0)
    assert [first.finished, second.finished, third.finished] == [False, False, True]
    assert files_of(third.end) == ["2.json"]


def test_bounded_over_an_empty_folder_is_finished(tmp_path: Path) -> None:
    source = source_of(tmp_path, **{"source.read_mode": "bounded"})
    assert source.plan_cut(source.initial_position(), 10, 0).finished


def test_rows_of_parquet_are_counted_from_footers(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / f"{number}.parquet", list(range(10)), at=number)
    source = source_of(tmp_path, "parquet")
    cut = source.plan_cut(source.initial_position(), 25, 0)
    assert (cut.rows, files_of(cut.end)) == (20, ["0.parquet", "1.parquet"])
    assert cut.lag_rows is not None
    assert 15 <= cut.lag_rows <= 25


def test_rows_of_text_are_guessed_from_bytes(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / f"{number}.json", [10] * 10, at=number)
    cut = source_of(tmp_path).plan_cut(source_of(tmp_path).initial_position(), 25, 0)
    assert cut.rows == 20


def test_a_folder_is_listed_at_most_once_per_poll_interval(tmp_path: Path) -> None:
    source = source_of(tmp_path, **{"source.poll_interval": "10s"})
    assert source.plan_cut(source.initial_position(), 10, 1_000).rows == 0
    write(tmp_path / "a.json", [1])
    assert source.plan_cut(source.initial_position(), 10, 10_999).rows == 0
    assert source.plan_cut(source.initial_position(), 10, 11_000).rows == 1


def test_an_incomplete_parquet_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and then nothing")
    source = source_of(tmp_path, "parquet")
    with pytest.raises(BadDataError, match=r"'half.parquet' is no complete Parquet file.*rename"):
        source.plan_cut(source.initial_position(), 10, 0)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    source = source_of(tmp_path / "nowhere")
    with pytest.raises(UserError, match="there is no folder"):
        source.plan_cut(source.initial_position(), 10, 0)


def test_positions_of_different_cuts_cannot_be_mixed(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.json", [1])
    source = source_of(tmp_path)
    end = source.plan_cut(source.initial_position(), 10, 0).end
    with pytest.raises(InternalError, match="one cut at a time"):
        source.read(spark, end, end, 2)


def test_parquet_columns_are_matched_by_name_and_missing_ones_are_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"b": ["x"], "a": [1]}), tmp_path / "{odd}*name.parquet")
    cols = columns(a="bigint", b="string", c="double")
    options = {"path": str(tmp_path), "format": "parquet", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, cols)
    assert [tuple(r) for r in read_rows(spark, source, cut_positions(source, [10]))] == [
        (1, "x", None)
    ]


def test_parquet_with_nanoseconds_is_read_beside_ordinary_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    moment = datetime(2023, 10, 9, 17, 13, 40, 200_000)
    for name, kind in [("ns", pa.timestamp("ns")), ("us", pa.timestamp("us", tz="UTC"))]:
        times = pa.array([moment], kind)
        table = pa.table({"ts": times, "l": pa.array([[1, 2]]), "d": pa.array([1], pa.int32())})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    cols = columns(ts="timestamp", l="array<bigint>", d="bigint")
    options = {"path": str(tmp_path), "format": "parquet", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, cols)
    rows = read_rows(spark, source, cut_positions(source, [10]))
    assert [(r.ts.replace(tzinfo=UTC), r.l, r.d) for r in rows] == [
        (moment.replace(tzinfo=UTC), [1, 2], 1)
    ] * 2


def test_a_column_of_the_wrong_type_is_named_with_its_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    times = pa.array([datetime(2023, 1, 1)], pa.timestamp("ns"))
    pq.write_table(pa.table({"a": ["text"], "ts": times}), tmp_path / "odd.parquet")
    cols = columns(a="bigint", ts="timestamp")
    options = {"path": str(tmp_path), "format": "parquet", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, cols)
    with pytest.raises(PySparkException) as caught:
        read_rows(spark, source, cut_positions(source, [10]))
    error = source_error(caught.value)
    assert isinstance(error, BadDataError)
    assert "'odd.parquet': column 'a' is string in the file" in error.message


def test_a_file_that_vanished_before_it_was_read_is_an_error_of_storage(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "a.json", [1])
    source = source_of(tmp_path)
    end = source.plan_cut(source.initial_position(), 10, 0).end
    (tmp_path / "a.json").unlink()
    with pytest.raises(PySparkException) as caught:
        source.read(spark, source.initial_position(), end, 1).collect()
    assert isinstance(source_error(caught.value), StorageError)


def times_of(folder: Path, **files: pa.Array) -> tuple[KnowingSource, list[JsonValue]]:
    """Write a Parquet file of times for each name; return the source and its only cut."""
    for name, times in files.items():
        table = pa.table({"ts": times, "n": pa.array(range(len(times)), pa.int64())})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=2)
    options = {"path": str(folder), "format": "parquet", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, columns(ts="timestamp", n="bigint"))
    assert isinstance(source, KnowingSource)
    return source, cut_positions(source, [1_000])


def moments(*seconds: float | None, kind: pa.DataType | None = None) -> pa.Array:
    made = [None if s is None else datetime.fromtimestamp(s, UTC) for s in seconds]
    return pa.array(made, kind or pa.timestamp("us", tz="UTC"))


def test_footers_know_what_reading_all_rows_finds(spark: SparkSession, tmp_path: Path) -> None:
    source, (start, end) = times_of(
        tmp_path,
        a=moments(5.000_001, 1, None, 9.25, -3),
        b=moments(7, kind=pa.timestamp("ms")),
        c=moments(None, None, None),
        d=moments(),
    )
    found = source.read(spark, start, end, 2).selectExpr("max(unix_micros(ts))", "count(*)").first()
    assert found is not None
    known = source.known(start, end, "ts")
    assert known == KnownRows(rows=9, latest_us=9_250_000)
    assert (known.latest_us, known.rows) == tuple(found)


def test_times_before_1970_and_none_at_all_are_known(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    source, (start, end) = times_of(tmp_path / "old", a=moments(-1.5, -7))
    assert source.known(start, end, "ts") == KnownRows(rows=2, latest_us=-1_500_000)
    (tmp_path / "none").mkdir()
    source, (start, end) = times_of(tmp_path / "none", a=moments(None))
    assert source.known(start, end, "ts") == KnownRows(rows=1, latest_us=None)


def test_what_footers_do_not_say_is_not_known(tmp_path: Path) -> None:
    source, (start, end) = times_of(tmp_path, a=moments(1), b=moments(2, kind=pa.timestamp("ns")))
    # Nanoseconds are cut off while they are read; a column of numbers has no time.
    assert source.known(start, end, "ts") is None
    assert source.known(start, end, "n") is None
    assert source.known(start, end, "absent") is None


def test_a_file_without_statistics_is_not_known(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": moments(1)}), tmp_path / "a.parquet", write_statistics=False)
    options = {"path": str(tmp_path), "format": "parquet", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, columns(ts="timestamp"))
    assert isinstance(source, KnowingSource)
    start, end = cut_positions(source, [10])
    assert source.known(start, end, "ts") is None


def test_a_parquet_file_that_vanished_is_an_error_of_storage(tmp_path: Path) -> None:
    _, (start, end) = times_of(tmp_path, a=moments(1))
    (tmp_path / "a.parquet").unlink()
    options = {"path": str(tmp_path), "format": "parquet", "source.read_mode": "bounded"}
    # Another worker has not seen the footer.
    later = open_source("filesystem", options, columns(ts="timestamp"))
    assert isinstance(later, KnowingSource)
    with pytest.raises(StorageError, match=r"a\.parquet"):
        later.known(start, end, "ts")
