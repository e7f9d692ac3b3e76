"""Files: damage is named, the cache is bounded and never trusted, names are never reused."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.core.errors import CheckpointInvalid, StorageError
from headgate.core.model import from_json, to_json
from headgate.state.tables import KeyedTable, TableIo, TableVersion, TimeTable
from headgate.state.tables.mapped import release_all
from headgate.state.tables.rows import HASH
from tests.support.stores import WriteOnceStore
from tests.support.table_world import World, new_world

SCHEMA = pa.schema(
    [("_hash", pa.int32()), ("key", pa.int64()), ("value", pa.string()), ("_deleted", pa.bool_())]
)


def rows(keys: range | list[int], value: str = "v") -> pa.Table:
    numbers = np.array(keys, dtype=np.int64)
    return pa.table(
        {
            "_hash": (numbers * 2654435761 % 2**32).astype(np.uint32).view(np.int32),
            "key": numbers,
            "value": [value] * len(numbers),
        }
    )


def write(
    io: TableIo, version: TableVersion | None, keys: range | list[int], epoch: int, value: str = "v"
) -> TableVersion:
    table = KeyedTable.open(io, version, SCHEMA, ["key"])
    table.put(rows(keys, value))
    return table.finish_epoch(epoch)[0]


def lookup(io: TableIo, version: TableVersion, keys: range | list[int]) -> list[str | None]:
    table = KeyedTable.open(io, version, SCHEMA, ["key"])
    found: list[str | None] = table.lookup(rows(keys))[0]["value"].to_pylist()
    return found


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.mark.parametrize("verify", [True, False])
def test_a_truncated_run_is_named_so(world: World, verify: bool) -> None:
    version = write(world.io(), None, range(100), 1)
    path = version.runs[0].path
    world.store.objects[path] = world.store.objects[path][:-10]
    world.lose_cache()
    with pytest.raises(CheckpointInvalid) as raised:
        lookup(world.io(verify_checksums=verify), version, [1])
    assert raised.value.code == "truncated"
    assert path in raised.value.message


def test_a_changed_byte_is_found_where_checksums_are_verified(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    path = version.runs[0].path
    data = bytearray(world.store.objects[path])
    data[len(data) // 2] ^= 1
    world.store.objects[path] = bytes(data)
    world.lose_cache()
    with pytest.raises(CheckpointInvalid) as raised:
        lookup(world.io(), version, [1])
    assert raised.value.code == "corrupt"


def test_a_file_that_is_not_parquet_is_corrupt_even_unverified(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    world.store.objects[version.runs[0].path] = b"x" * version.runs[0].bytes
    world.lose_cache()
    with pytest.raises(CheckpointInvalid) as raised:
        lookup(world.io(verify_checksums=False), version, [1])
    assert raised.value.code == "corrupt"


def test_a_missing_run_is_named_so(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    world.store.objects.clear()
    world.lose_cache()
    with pytest.raises(CheckpointInvalid) as raised:
        lookup(world.io(), version, [1])
    assert raised.value.code == "missing"


def test_a_run_of_other_columns_is_inconsistent(world: World) -> None:
    version = write(world.io(), None, range(3), 1)
    other = KeyedTable.open(
        world.io(), None, SCHEMA.remove(2).append(pa.field("value", pa.int64())), ["key"]
    )
    other.put(rows(range(3)).set_column(2, "value", pa.array([1, 2, 3])))
    foreign = other.finish_epoch(1)[0].runs
    world.lose_cache()
    with pytest.raises(CheckpointInvalid) as raised:
        lookup(world.io(), replace(version, runs=foreign), [1])
    assert raised.value.code == "inconsistent"


def test_a_table_of_another_kind_or_schema_is_refused(world: World) -> None:
    version = write(world.io(), None, range(3), 1)
    with pytest.raises(CheckpointInvalid) as raised:
        KeyedTable.open(world.io(), version, SCHEMA.remove(2), ["key"])
    assert raised.value.code == "inconsistent"
    with pytest.raises(CheckpointInvalid) as raised:
        TimeTable.open(world.io(), version, SCHEMA.append(pa.field("_time", pa.int64())))
    assert raised.value.code == "inconsistent"


def test_lost_scratch_is_an_external_error(world: World) -> None:
    table = KeyedTable.open(world.io(), None, SCHEMA, ["key"])
    table.put(rows(range(3)))
    version = table.finish_batch(1, 1)
    Path(version.scratch[0].path).unlink()
    release_all()
    with pytest.raises(StorageError) as raised:
        lookup(world.io(), version, [1])
    assert raised.value.code == "scratch_lost"


def test_the_writer_seeds_the_cache(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    assert lookup(world.io(), version, [1, 100]) == ["v", None]
    assert world.store.gets == []


def test_a_run_is_fetched_once_per_cache(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    world.lose_cache()
    assert lookup(world.io(), version, [1]) == ["v"]
    release_all()
    assert lookup(world.io(), version, [2]) == ["v"]
    assert world.store.gets == [version.runs[0].path]


def test_a_damaged_cached_file_is_fetched_again(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    io = world.io()
    for name in os.listdir(io.cache_dir):
        (Path(io.cache_dir) / name).write_bytes(b"")
    release_all()
    assert lookup(io, version, [1]) == ["v"]
    assert world.store.gets == [version.runs[0].path]


def test_the_cache_is_bounded_and_forgets_the_least_recently_used(world: World) -> None:
    io = world.io(fanout=100)
    first = write(io, None, range(1000), 1)
    size = (Path(io.cache_dir) / os.listdir(io.cache_dir)[0]).stat().st_size
    second = write(world.io(fanout=100), first, range(1000, 2000), 2)
    names = sorted(os.listdir(io.cache_dir), key=lambda n: (Path(io.cache_dir) / n).stat().st_mtime)
    # The older file is used again, so the younger one has to go.
    release_all()
    os.utime(Path(io.cache_dir) / names[0], (1, 1))
    os.utime(Path(io.cache_dir) / names[1], (2, 2))
    lookup(world.io(), replace(second, runs=second.runs[:1]), [1])
    bounded = world.io(fanout=100, cache_bytes_max=int(size * 2.5))
    third = write(bounded, second, range(2000, 3000), 3)
    left = os.listdir(io.cache_dir)
    assert names[0] in left
    assert names[1] not in left
    assert len(left) == 2
    # What was evicted is fetched again, and a run that is larger than the cache still works.
    assert lookup(world.io(cache_bytes_max=1), third, [1, 1500, 2500]) == ["v", "v", "v"]
    assert len(os.listdir(io.cache_dir)) == 1


def test_eviction_leaves_files_alone_that_are_being_written(world: World) -> None:
    io = world.io(cache_bytes_max=1)
    version = write(io, None, range(1000), 1)
    folder = Path(io.cache_dir)
    (folder / "x.arrow.1.tmp").write_bytes(b"half of a file")
    (folder / "y.arrow.2.tmp").write_bytes(b"of a process that died")
    os.utime(folder / "y.arrow.2.tmp", (1, 1))
    write(io, version, range(1000, 2000), 2)
    names = [name for name in os.listdir(folder) if name.endswith(".tmp")]
    assert names == ["x.arrow.1.tmp"]


def test_a_mapped_file_survives_its_eviction(world: World) -> None:
    version = write(world.io(), None, range(1000), 1)
    io = world.io()
    table = KeyedTable.open(io, version, SCHEMA, ["key"])
    table.lookup(rows([1]))
    for name in os.listdir(io.cache_dir):
        (Path(io.cache_dir) / name).unlink()
    assert table.lookup(rows([5]))[0]["value"].to_pylist() == ["v"]
    assert world.store.gets == []


def test_leftovers_of_a_crash_never_matter(world: World) -> None:
    version = write(world.io(), None, range(10), 1)
    # An attempt that ended a batch and an epoch, and was then forgotten.
    zombie = world.io()
    table = KeyedTable.open(zombie, version, SCHEMA, ["key"])
    table.put(rows([1], "zombie"))
    table.finish_batch(2, 1)
    table.finish_epoch(2)
    # A half-written file under the name that the cache would use next.
    for name in os.listdir(zombie.cache_dir):
        (Path(zombie.cache_dir) / f"{name}.dead.tmp").write_bytes(b"half")
    after = write(world.io(), version, [2], 2, "second")
    world.lose_cache()
    assert lookup(world.io(), after, [1, 2]) == ["v", "second"]


def test_a_retried_task_gives_the_same_answer(world: World) -> None:
    version = write(world.io(), None, range(100), 1)
    attempts = []
    for _ in range(2):
        table = KeyedTable.open(world.io(), version, SCHEMA, ["key"])
        table.put(rows(range(50, 150), "new"))
        attempts.append(table.finish_batch(2, 1))
    assert attempts[0].scratch[0].path != attempts[1].scratch[0].path
    answers = [lookup(world.io(), each, range(160)) for each in attempts]
    assert answers[0] == answers[1]


def test_runs_are_ordinary_parquet_sorted_by_hash(world: World) -> None:
    version = write(world.io(), None, range(1000), 7)
    ref = version.runs[0]
    assert ref.path == "generations/1/runs/agg/keyed/0000007-000-a1.parquet"
    file = pq.ParquetFile(pa.BufferReader(world.store.objects[ref.path]))
    table = file.read()
    assert file.num_row_groups == 1
    assert table.column_names == ["_hash", "key", "value", "_deleted"]
    found = table[HASH].to_pylist()
    assert found == sorted(found)
    assert (ref.min_hash, ref.max_hash, ref.rows) == (found[0], found[-1], 1000)
    assert (ref.first_epoch, ref.last_epoch) == (7, 7)


def test_large_runs_are_cut_by_hash(world: World) -> None:
    io = world.io(run_bytes_max=20_000)
    version = write(io, None, range(10_000), 1)
    assert len(version.runs) > 5
    edges = [(run.min_hash, run.max_hash) for run in version.runs]
    for (_, high), (low, _) in pairwise(edges):
        assert high is not None
        assert low is not None
        assert high < low
    world.lose_cache()
    asked = rows([7])
    table = KeyedTable.open(world.io(), version, SCHEMA, ["key"])
    assert table.lookup(asked)[0]["value"].to_pylist() == ["v"]
    assert len(world.store.gets) == 1


def test_bytes_of_an_epoch_follow_its_changes_not_the_state(world: World) -> None:
    sizes = {}
    for state in (2_000, 200_000):
        fresh = new_world()
        version = write(fresh.io(), None, range(state), 1)
        table = KeyedTable.open(fresh.io(), version, SCHEMA, ["key"])
        table.put(rows(range(0, 2_000, 2), "changed"))
        after, stats = table.finish_epoch(2)
        assert after.runs[: len(version.runs)] == version.runs
        assert stats.objects == 1
        assert stats.bytes == sum(run.bytes for run in after.runs[len(version.runs) :])
        sizes[state] = stats.bytes
    assert sizes[200_000] < sizes[2_000] * 1.1


def test_bytes_over_many_epochs_follow_the_changes(world: World) -> None:
    version = write(world.io(), None, range(50_000), 1)
    state_bytes = sum(run.bytes for run in version.runs)
    total = 0
    for epoch in range(2, 34):
        table = KeyedTable.open(world.io(), version, SCHEMA, ["key"])
        table.put(rows(range(epoch * 100, epoch * 100 + 100), f"e{epoch}"))
        version, stats = table.finish_epoch(epoch)
        total += stats.bytes
        assert stats.objects == 1
    assert total < state_bytes
    assert len(version.runs) <= 10
    assert lookup(world.io(), version, [150, 250, 3350, 49_999]) == ["v", "e2", "e33", "v"]


def test_versions_and_io_travel() -> None:
    world = new_world()
    table = KeyedTable.open(world.io(), None, SCHEMA, ["key"])
    table.put(rows([1]))
    version = table.finish_batch(1, 1)
    assert from_json(TableVersion, to_json(version)) == version
    io = replace(world.io(), store=WriteOnceStore)
    assert isinstance(io.objects, WriteOnceStore)
    copied = pickle.loads(pickle.dumps(io))
    assert copied.run_path("t", 1) == replace(io).run_path("t", 1)


def test_names_of_one_attempt_differ(world: World) -> None:
    io = world.io()
    assert len({io.run_path("t", 1) for _ in range(100)}) == 100
