"""The local cache of runs: checked before it is believed, and never needed."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.core.checkpoint import HashFilter
from headgate.core.ids import Subtask
from headgate.state.tables import KeyedTable, TableVersion, TimeTable
from headgate.state.tables import cache as cache_module
from headgate.state.tables.mapped import release_all
from tests.support.table_world import World, new_world

SCHEMA = pa.schema(
    [("_hash", pa.int32()), ("key", pa.int64()), ("count", pa.int64()), ("_deleted", pa.bool_())]
)
ROWS = {"_hash": [1, 2, 3], "key": [10, 20, 30], "count": [1_000, 2_000, 3_000]}


def write(world: World) -> TableVersion:
    table = KeyedTable.open(world.io(), None, SCHEMA, ["key"])
    table.put(pa.table(ROWS, schema=pa.schema([SCHEMA.field(i) for i in range(3)])))
    return table.finish_epoch(1)[0]


def counts(world: World, version: TableVersion, *, verify: bool = True) -> list[int]:
    """What a process that has nothing open yet restores."""
    release_all()
    io = world.io(verify_checksums=verify)
    rows = KeyedTable.open(io, version, SCHEMA, ["key"]).scan()
    found: list[int] = rows["count"].to_pylist()
    return sorted(found)


def cached(world: World) -> Path:
    (path,) = (world.folder / "cache-0").iterdir()
    return path


def flip_bit(path: Path, value: int) -> None:
    """Change one bit of a stored number."""
    data = bytearray(path.read_bytes())
    data[data.index(value.to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)


def test_one_flipped_bit_in_a_cached_file_is_noticed_and_the_run_fetched_again() -> None:
    world = new_world()
    version = write(world)
    flip_bit(cached(world), 2_000)
    world.store.gets.clear()
    assert counts(world, version) == [1_000, 2_000, 3_000]
    assert len(world.store.gets) == 1
    # It was filled again, and is believed again.
    assert counts(world, version) == [1_000, 2_000, 3_000]
    assert len(world.store.gets) == 1


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("damage", [b"", b"x", b"ARROW1" * 20])
def test_a_file_that_is_no_cached_run_is_replaced(damage: bytes, verify: bool) -> None:
    world = new_world()
    version = write(world)
    cached(world).write_bytes(damage)
    assert counts(world, version, verify=verify) == [1_000, 2_000, 3_000]


def test_a_cut_file_is_replaced_whatever_is_verified() -> None:
    world = new_world()
    version = write(world)
    whole = cached(world).read_bytes()
    for size in range(0, len(whole), 7):
        cached(world).write_bytes(whole[:size])
        assert counts(world, version, verify=False) == [1_000, 2_000, 3_000]
        assert cached(world).read_bytes() == whole


def test_a_full_cache_disk_fails_no_checkpoint_and_no_restore(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: str, batch: pa.RecordBatch) -> int:
        Path(path).write_bytes(b"as much as there was room for")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headgate.state.tables.mapped.write_checked", full)
    monkeypatch.setattr(cache_module, "_failed", set())
    world = new_world()
    with caplog.at_level(logging.WARNING):
        version = write(world)
        assert len(version.runs) == 1
        assert counts(world, version) == [1_000, 2_000, 3_000]
    assert list((world.folder / "cache-0").iterdir()) == []
    assert len(caplog.records) == 1
    assert "No space left" in caplog.records[0].getMessage()


def test_a_cache_folder_that_cannot_be_made_fails_nothing() -> None:
    world = new_world()
    (world.folder / "cache-0").write_bytes(b"a file is in its place")
    version = write(world)
    assert counts(world, version) == [1_000, 2_000, 3_000]


def cached_names(world: World) -> set[str]:
    return {path.name for path in (world.folder / "cache-0").iterdir()}


def test_runs_that_were_joined_leave_the_cache_with_the_next_barrier() -> None:
    world = new_world()
    version = write(world)
    before = version
    for epoch in range(2, 120):
        before, table = version, KeyedTable.open(world.io(), version, SCHEMA, ["key"])
        rows = {"_hash": [epoch], "key": [epoch], "count": [epoch]}
        table.put(pa.table(rows, schema=pa.schema([SCHEMA.field(i) for i in range(3)])))
        version = table.finish_epoch(epoch)[0]
        # What the checkpoint before has is still there: if this one does not come to be, the job
        # goes on from that one.
        cache = world.io().cache
        needed = {Path(cache.path(run)).name for v in (before, version) for run in v.runs}
        assert cached_names(world) == needed
    world.store.gets.clear()
    assert len(counts(world, version)) == 3 + 118
    assert len(counts(world, before)) == 3 + 117
    assert world.store.gets == []


def test_a_run_that_other_subtasks_share_stays_in_the_cache() -> None:
    world = new_world()
    version = write(world)
    (run,) = version.runs
    shared = replace(run, filters=(HashFilter(parallelism=2, subtask=Subtask(0)),))
    version = replace(version, runs=(), replaced=(shared,))
    table = KeyedTable.open(world.io(), version, SCHEMA, ["key"])
    assert table.finish_epoch(2)[0].replaced == ()
    assert cached(world).exists()


def test_runs_whose_rows_have_expired_leave_the_cache() -> None:
    world = new_world()
    schema = pa.schema([("_hash", pa.int32()), ("_time", pa.int64()), ("n", pa.int64())])
    version = None
    for epoch in range(1, 60):
        table = TimeTable.open(world.io(), version, schema)
        table.append(pa.table({"_hash": [1], "_time": [epoch], "n": [epoch]}, schema=schema))
        table.drop_before(epoch - 3)
        version = table.finish_batch(epoch, epoch)
        version = TimeTable.open(world.io(), version, schema).finish_epoch(epoch)[0]
    assert len(cached_names(world)) <= 8
