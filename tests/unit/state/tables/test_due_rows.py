"""Finding rows by their time: keys that have become old, and the first time that comes."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.state.tables import (
    KeyedTable,
    TableVersion,
    TimeTable,
    state_from_version,
    version_from_state,
)
from tests.support.table_world import new_world, rescale

KEYED = pa.schema([("_hash", pa.int32()), ("k", pa.int64()), ("_time", pa.int64())])
TIMED = pa.schema([("_hash", pa.int32()), ("_time", pa.int64())])


def keyed_rows(entries: list[tuple[int, int]]) -> pa.Table:
    rows = [{"_hash": k % 3 - 1, "k": k, "_time": t} for k, t in entries]
    return pa.Table.from_pylist(rows, schema=KEYED)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=8),
            st.lists(st.integers(0, 9), max_size=2),
            st.booleans(),
        ),
        max_size=6,
    ),
    bounds=st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted),
)
def test_older_rows_are_those_whose_newest_version_is_older(
    batches: list[tuple[list[tuple[int, int]], list[int], bool]], bounds: list[int]
) -> None:
    world = new_world()
    version: TableVersion | None = None
    times: dict[int, int] = {}
    for number, (entries, gone, barrier) in enumerate(batches, start=1):
        table = KeyedTable.open(world.io(), version, KEYED, ["k"], name="t")
        for key, time in entries:
            table.put(keyed_rows([(key, time)]))
            times[key] = time
        table.delete(keyed_rows([(key, 0) for key in gone]))
        for key in gone:
            times.pop(key, None)
        if barrier:
            version, _ = table.finish_epoch(number)
        else:
            version = table.finish_batch(number, number)
    low, high = bounds
    table = KeyedTable.open(world.io(), version, KEYED, ["k"], name="t")
    table.expire(low)
    found = table.older_than(high).select(["k", "_time"]).to_pylist()
    expected = sorted((k, t) for k, t in times.items() if low <= t < high)
    assert sorted((r["k"], r["_time"]) for r in found) == expected


def test_older_rows_of_other_subtasks_are_not_found_after_a_change_of_parallelism() -> None:
    world = new_world()
    table = KeyedTable.open(world.io(), None, KEYED, ["k"], name="t")
    table.put(keyed_rows([(k, k) for k in range(6)]))
    version, _ = table.finish_epoch(1)
    found = []
    for part in rescale([state_from_version(version)], 2):
        opened = KeyedTable.open(world.io(), part, KEYED, ["k"], name="t")
        found += opened.older_than(4)["k"].to_pylist()
    assert sorted(found) == [0, 1, 2, 3]


def test_the_first_time_is_exact_behind_the_horizon() -> None:
    world = new_world()
    table = TimeTable.open(world.io(), None, TIMED, name="t")
    assert table.first_time() is None
    table.append(pa.table({"_hash": [1, 1, 1], "_time": [5, 9, 30]}, schema=TIMED))
    assert table.first_time() == 5
    version = table.finish_batch(1, 1)
    table = TimeTable.open(world.io(), version, TIMED, name="t")
    table.append(pa.table({"_hash": [1], "_time": [20]}, schema=TIMED))
    table.drop_before(10)
    assert (table.min_time(), table.first_time()) == (10, 20)
    version, _ = table.finish_epoch(1)
    table = TimeTable.open(world.io(), version_from_state(state_from_version(version)), TIMED)
    table.drop_before(21)
    assert table.first_time() == 30
    table.drop_before(31)
    assert table.first_time() is None
