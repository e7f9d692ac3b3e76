"""One suite over every kind of folder that the filesystem connector reads and writes."""

from __future__ import annotations

import json
import pickle
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import StorageError
from headgate.storage.folder import Folder, open_folder
from headgate.testing import columns, cut_positions, open_sink, open_source, read_rows
from headgate.testing.staging import JOB
from tests.support.connectors import batch_of, stage_epochs

MakeUrl = Callable[[], str]


@pytest.fixture(params=["local", "s3"])
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> MakeUrl:
    """Makes URLs of new, empty folders."""
    if request.param == "local":
        return lambda: str(tmp_path / uuid.uuid4().hex)
    endpoint = request.getfixturevalue("s3_endpoint")
    # In the URL and not in the environment: tasks of a running Spark see only the URL.
    query = f"endpoint={endpoint}&access_key_id=test&secret_access_key=test"
    return lambda: f"s3://contracts/folders/{uuid.uuid4().hex}?{query}"


@pytest.fixture
def folder(make_url: MakeUrl) -> Folder:
    made = open_folder(make_url(), {})
    made.check_writable()
    return made


def test_what_is_written_is_listed_and_read(folder: Folder) -> None:
    before_us = int(time.time() * 1_000_000) - 60_000_000
    folder.write("a.txt", b"hello")
    folder.write("k=1/b c.txt", b"")
    listed = {f.path: f for f in folder.list()}
    assert {path: f.bytes for path, f in listed.items()} == {"a.txt": 5, "k=1/b c.txt": 0}
    assert all(f.modified_us > before_us for f in listed.values())
    assert folder.read("a.txt") == b"hello"
    assert folder.exists()


def test_ranges_are_read_up_to_the_end(folder: Folder) -> None:
    folder.write("a", b"0123456789")
    assert folder.read("a", 2, 5) == b"234"
    assert folder.read("a", 7) == b"789"
    assert folder.read("a", 8, 10) == b"89"


def test_a_write_replaces_and_leaves_nothing_else(folder: Folder) -> None:
    folder.write("a", b"old")
    folder.write("a", b"new")
    assert folder.read("a") == b"new"
    assert [f.path for f in folder.list()] == ["a"]


def test_a_write_that_fails_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(str(tmp_path), {})

    def full_disk(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(StorageError, match="no space left"):
        folder.write("a", b"x" * 100)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_deleting_what_is_absent_succeeds(folder: Folder) -> None:
    folder.write("a", b"x")
    folder.delete("a")
    folder.delete("a")
    assert list(folder.list()) == []


def test_reading_what_is_absent_is_a_storage_error(folder: Folder) -> None:
    with pytest.raises(StorageError, match="cannot read nope"):
        folder.read("nope")


def test_a_folder_can_be_sent_into_a_task(folder: Folder) -> None:
    folder.write("a", b"x")
    copy = pickle.loads(pickle.dumps(folder))
    assert copy.read("a") == b"x"


def test_a_relative_path_is_the_same_folder_wherever_a_task_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = open_folder("here", {})
    folder.write("a", b"x")
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(folder)).read("a") == b"x"
    assert (tmp_path / "here" / "a").read_bytes() == b"x"


def test_a_sink_publishes_twice_and_a_source_reads_once(
    spark: SparkSession, make_url: MakeUrl
) -> None:
    url = make_url()
    sink = open_sink("filesystem", {"path": url, "format": "json"})
    sink.check_target(JOB, resuming=False)
    for epoch in stage_epochs(sink, [[batch_of(a=[1, 2]), batch_of(a=[3])], [batch_of(a=[4])]]):
        epoch.publish()
        epoch.publish()
    options = {"path": url, "format": "json", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, columns(a="bigint"))
    rows = read_rows(spark, source, cut_positions(source, [10]), parts=2)
    assert sorted(r.a for r in rows) == [1, 2, 3, 4]


def test_parquet_is_read_wherever_it_is(spark: SparkSession, make_url: MakeUrl) -> None:
    url = make_url()
    folder = open_folder(url, {})
    for number in range(3):
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": [number], "l": [[number, None]]}), buffer)
        folder.write(f"{number}.parquet", buffer.getvalue().to_pybytes())
    options = {"path": url, "format": "parquet", "source.read_mode": "bounded"}
    source = open_source("filesystem", options, columns(a="bigint", l="array<bigint>"))
    rows = read_rows(spark, source, cut_positions(source, [2]))
    assert sorted(json.dumps(r.asDict()) for r in rows) == [
        json.dumps({"a": n, "l": [n, None]}) for n in range(3)
    ]
