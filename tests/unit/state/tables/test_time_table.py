"""Time tables against a plain list of rows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MIN, TableState
from headgate.state.tables import (
    TableVersion,
    TimeTable,
    state_from_version,
    version_from_state,
)
from tests.support.table_world import World, new_world, rescale, rows_of

SCHEMA = pa.schema(
    [("_hash", pa.int32()), ("_time", pa.int64()), ("key", pa.string()), ("n", pa.int64())]
)
Row = tuple[int, int, str, int]


def table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def sum_by_key(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by(["_hash", "_time", "key"]).aggregate([("n", "sum")])
    return grouped.rename_columns({"n_sum": "n"})


rows_strategy = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3),
        st.integers(0, 30),
        st.sampled_from(["a", "b", "é"]),
        st.integers(-5, 5),
    ),
    max_size=8,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows_strategy),
        st.tuples(st.just("batch"), st.none()),
        st.tuples(st.just("epoch"), st.none()),
        st.tuples(st.just("retry"), st.none()),
        st.tuples(st.just("restore"), st.none()),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
        st.tuples(st.just("drop"), st.integers(0, 30)),
        st.tuples(st.just("read"), st.tuples(st.integers(-1, 31), st.integers(-1, 31))),
    ),
    max_size=40,
)


@dataclass
class Life:
    """All subtasks of one table and the rows that should be in it."""

    world: World
    merge: bool
    parallelism: int = 1
    epoch: int = 1
    batch: int = 0
    horizon: int = WATERMARK_MIN
    rows: list[Row] = field(default_factory=list)
    saved: tuple[list[Row], list[TableState], int] | None = None
    versions: list[TableVersion | None] = field(default_factory=lambda: [None])

    def open(self) -> list[TimeTable]:
        tables = []
        for subtask, version in enumerate(self.versions):
            merge = sum_by_key if self.merge else None
            io = self.world.io(subtask=subtask, run_bytes_max=300, fanout=3, scratch_fanout=2)
            opened = TimeTable.open(io, version, SCHEMA, merge=merge)
            opened.drop_before(self.horizon)
            tables.append(opened)
        return tables

    def live(self, low: int, high: int) -> list[Row]:
        low = max(low, self.horizon)
        return [row for row in self.rows if low <= row[1] < high]

    def check(self, tables: list[TimeTable], low: int, high: int) -> None:
        found = pa.concat_tables([each.read(low, high) for each in tables])
        wanted = table(self.live(low, high))
        if self.merge:
            found, wanted = sum_by_key(found), sum_by_key(wanted)
        assert rows_of(found) == rows_of(wanted)


@settings(max_examples=150, deadline=None)
@given(steps=steps, merge=st.booleans())
def test_reads_see_exactly_the_live_rows_whatever_happens_in_between(
    steps: list[tuple[str, object]], merge: bool
) -> None:
    life = Life(new_world(), merge)
    tables = life.open()
    for action, what in steps:
        match action, what:
            case "append", list(rows):
                life.rows += rows
                for subtask, each in enumerate(tables):
                    mine = [row for row in rows if row[0] % life.parallelism == subtask]
                    each.append(table(mine))
            case "read", (int(low), int(high)):
                life.check(tables, low, high)
            case "drop", int(time):
                life.horizon = max(life.horizon, time)
                for each in tables:
                    each.drop_before(time)
            case "batch", _:
                life.batch += 1
                life.versions = [each.finish_batch(life.epoch, life.batch) for each in tables]
                tables = life.open()
            case "epoch", _:
                life.versions = [each.finish_epoch(life.epoch)[0] for each in tables]
                states = [state_from_version(each) for each in life.versions if each]
                life.saved = (list(life.rows), states, life.epoch)
                life.epoch += 1
                tables = life.open()
            case "retry", _:
                # The checkpoint was aborted: the same epoch ends once more, later.
                life.versions = [each.finish_epoch(life.epoch)[0] for each in tables]
                tables = life.open()
            case "restore", _ if life.saved:
                life.rows, states, epoch = list(life.saved[0]), life.saved[1], life.saved[2]
                life.epoch, life.versions = epoch + 1, [version_from_state(s) for s in states]
                life.parallelism = len(states)
                life.world.lose_cache()
                tables = life.open()
            case "rescale", int(parallelism):
                versions = [each.finish_epoch(life.epoch)[0] for each in tables]
                life.epoch += 1
                states = [state_from_version(each) for each in versions]
                life.versions = list(rescale(states, parallelism))
                life.parallelism = parallelism
                life.saved = (
                    list(life.rows),
                    [state_from_version(v) for v in life.versions if v],
                    life.epoch,
                )
                life.world.generation += 1
                tables = life.open()
            case _:
                pass
    life.check(tables, WATERMARK_MIN, 2**62)
    shutil.rmtree(life.world.folder)


@pytest.fixture
def world() -> World:
    return new_world()


def closed_epoch(world: World, version: TableVersion | None, rows: list[Row], epoch: int):  # type: ignore[no-untyped-def]
    opened = TimeTable.open(world.io(), version, SCHEMA)
    opened.append(table(rows))
    return opened.finish_epoch(epoch)


def test_runs_that_do_not_overlap_are_not_touched(world: World) -> None:
    version, _ = closed_epoch(world, None, [(1, 10, "a", 1)], 1)
    version, _ = closed_epoch(world, version, [(1, 20, "a", 2)], 2)
    world.lose_cache()
    found = TimeTable.open(world.io(), version, SCHEMA).read(20, 30)
    assert found.column("n").to_pylist() == [2]
    assert world.store.gets == [version.runs[1].path]


def test_runs_wholly_before_the_horizon_are_dropped_unread(world: World) -> None:
    version, _ = closed_epoch(world, None, [(1, 10, "a", 1), (1, 11, "a", 1)], 1)
    version, _ = closed_epoch(world, version, [(1, 20, "a", 2), (1, 9, "a", 3)], 2)
    world.lose_cache()
    opened = TimeTable.open(world.io(), version, SCHEMA)
    opened.drop_before(12)
    after, stats = opened.finish_epoch(3)
    assert world.store.gets == []
    assert after.runs == version.runs[1:]
    assert stats.objects == 0
    reopened = TimeTable.open(world.io(), after, SCHEMA)
    assert reopened.read(0, 100).column("n").to_pylist() == [2]


def test_rows_dropped_within_the_epoch_are_never_written_to_the_store(world: World) -> None:
    opened = TimeTable.open(world.io(), None, SCHEMA)
    opened.append(table([(1, 10, "a", 1), (1, 20, "a", 2)]))
    version = opened.finish_batch(1, 1)
    opened = TimeTable.open(world.io(), version, SCHEMA)
    opened.append(table([(1, 5, "a", 1)]))
    opened.drop_before(15)
    version, stats = opened.finish_epoch(1)
    assert (version.runs[0].rows, version.runs[0].min_time, stats.objects) == (1, 20, 1)


def test_an_idle_epoch_writes_nothing(world: World) -> None:
    version, _ = closed_epoch(world, None, [(1, 10, "a", 1)], 1)
    again, stats = closed_epoch(world, version, [], 2)
    assert (again, stats.objects, stats.bytes) == (version, 0, 0)


def test_a_null_time_is_refused(world: World) -> None:
    opened = TimeTable.open(world.io(), None, SCHEMA)
    with pytest.raises(ValueError, match="_time"):
        opened.append(pa.table({"_hash": [1], "_time": pa.array([None], pa.int64())}))


def test_the_earliest_time_is_known_without_reading(world: World) -> None:
    version, _ = closed_epoch(world, None, [(1, 10, "a", 1)], 1)
    world.lose_cache()
    opened = TimeTable.open(world.io(), version, SCHEMA)
    assert opened.min_time() == 10
    opened.append(table([(1, 7, "b", 1)]))
    assert opened.min_time() == 7
    opened.drop_before(11)
    assert opened.min_time() is None
    assert world.store.gets == []
