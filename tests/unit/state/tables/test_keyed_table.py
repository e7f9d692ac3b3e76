"""Keyed tables against a plain dict."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MIN, TableState
from headgate.state.tables import (
    KeyedTable,
    TableVersion,
    search,
    state_from_version,
    version_from_state,
)
from tests.support.table_world import World, new_world, rescale

DAY = dt.datetime(2024, 2, 29, 12, 0, 0, 5)
# Every type that SQL can group by, with values that are easily confused.
KEY_VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 2**63 - 1, None]),
    (pa.int8(), [0, 1, -1, None]),
    (pa.bool_(), [True, False, None]),
    (pa.string(), ["", "a", "ab", "é", None]),
    (pa.large_string(), ["", "a", None]),
    (pa.binary(), [b"", b"\0", b"\0\0", None]),
    (pa.decimal128(38, 18), [decimal.Decimal("1.5"), decimal.Decimal("-1.5"), None]),
    (pa.timestamp("us", "UTC"), [DAY, DAY + dt.timedelta(microseconds=1), None]),
    (pa.timestamp("us"), [DAY, None]),
    (pa.date32(), [DAY.date(), None]),
    (pa.duration("us"), [dt.timedelta(0), dt.timedelta(1), None]),
    (pa.float64(), [0.0, math.nan, math.inf, 1.5, None]),
    (pa.float32(), [0.0, math.nan, 1.5, None]),
    (pa.list_(pa.int32()), [[], [1], [1, None], [None, 1], [None], None]),
    (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": None, "b": None}, None],
    ),
    (
        pa.list_(pa.struct([("a", pa.list_(pa.string()))])),
        [[], [{"a": []}], [{"a": ["x"]}, {"a": None}], [None], None],
    ),
    (pa.null(), [None]),
]


def frozen(value: Any) -> Any:
    """A hashable stand-in that is equal exactly where SQL grouping says so."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, decimal.Decimal):
        return str(value.normalize())
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, list):
        return ("list", *(frozen(each) for each in value))
    if isinstance(value, dict):
        return ("struct", *(frozen(each) for each in value.values()))
    return value


Key = tuple[Any, ...]
Hasher = Callable[[Key], int]


def constant_hash(key: Key) -> int:
    del key
    return -7


def few_hashes(key: Key) -> int:
    return zlib.crc32(repr(frozen(list(key))).encode()) % 3 - 1


def wide_hash(key: Key) -> int:
    return zlib.crc32(repr(frozen(list(key))).encode()) - 2**31


@dataclass
class Life:
    """All subtasks of one table, and the dict that they should be."""

    world: World
    key_types: list[pa.DataType]
    hasher: Hasher
    parallelism: int = 1
    epoch: int = 1
    batch: int = 0
    horizon: int = WATERMARK_MIN
    # frozen key -> (key, value, time)
    rows: dict[Any, tuple[Key, Any, int]] = field(default_factory=dict)
    saved: tuple[dict[Any, tuple[Key, Any, int]], list[TableState], int] | None = None
    versions: list[TableVersion | None] = field(default_factory=lambda: [None])

    @property
    def names(self) -> list[str]:
        return [f"k{i}" for i in range(len(self.key_types))]

    def schema(self) -> pa.Schema:
        keys = list(zip(self.names, self.key_types, strict=True))
        return pa.schema(
            [
                ("_hash", pa.int32()),
                *keys,
                ("_time", pa.int64()),
                ("value", pa.list_(pa.string())),
                ("_deleted", pa.bool_()),
            ]
        )

    def open(self) -> list[KeyedTable]:
        tables = []
        for subtask, version in enumerate(self.versions):
            io = self.world.io(subtask=subtask, run_bytes_max=400, fanout=3, scratch_fanout=2)
            opened = KeyedTable.open(io, version, self.schema(), self.names)
            opened.expire(self.horizon)
            tables.append(opened)
        return tables

    def owner(self, key: Key) -> int:
        return self.hasher(key) % self.parallelism

    def keys(self, keys: list[Key]) -> pa.Table:
        columns = [pa.array([self.hasher(key) for key in keys], pa.int32())]
        for i, kind in enumerate(self.key_types):
            columns.append(pa.array([key[i] for key in keys], kind))
        return pa.table(columns, ["_hash", *self.names])

    def put(self, tables: list[KeyedTable], changes: list[tuple[Key, Any, int, bool]]) -> None:
        for subtask, each in enumerate(tables):
            mine = [change for change in changes if self.owner(change[0]) == subtask]
            rows = self.keys([key for key, *_ in mine])
            rows = rows.append_column("_time", pa.array([c[2] for c in mine], pa.int64()))
            values = pa.array([None if c[3] else c[1] for c in mine], pa.list_(pa.string()))
            rows = rows.append_column("value", values)
            each.put(rows.append_column("_deleted", pa.array([c[3] for c in mine], pa.bool_())))
        for key, value, time, deleted in changes:
            if deleted:
                self.rows.pop(frozen(list(key)), None)
            else:
                self.rows[frozen(list(key))] = (key, value, time)

    def wanted(self, key: Key) -> tuple[Any, bool]:
        row = self.rows.get(frozen(list(key)))
        if row is None or row[2] < self.horizon:
            return None, False
        return row[1], True

    def check_lookup(self, tables: list[KeyedTable], keys: list[Key]) -> None:
        for subtask, each in enumerate(tables):
            mine = [key for key in keys if self.owner(key) == subtask]
            values, found = each.lookup(self.keys(mine))
            assert values.column_names == ["_time", "value"]
            answer = list(zip(values["value"].to_pylist(), found.to_pylist(), strict=True))
            assert answer == [self.wanted(key) for key in mine]

    def check_scan(self, tables: list[KeyedTable]) -> None:
        seen = []
        for subtask, each in enumerate(tables):
            rows = each.scan()
            assert rows["_hash"].to_pylist() == sorted(rows["_hash"].to_pylist())
            for row in rows.to_pylist():
                key = tuple(row[name] for name in self.names)
                assert self.owner(key) == subtask
                seen.append((repr(frozen(list(key))), row["value"], row["_time"]))
        live = [(repr(key), row[1], row[2]) for key, row in self.rows.items()]
        assert sorted(seen, key=repr) == sorted(
            [row for row in live if row[2] >= self.horizon], key=repr
        )

    def check_older(self, tables: list[KeyedTable], time: int) -> None:
        rows = [row for each in tables for row in each.older_than(time).to_pylist()]
        seen = [
            (repr(frozen([row[name] for name in self.names])), row["value"], row["_time"])
            for row in rows
        ]
        live = [(repr(key), row[1], row[2]) for key, row in self.rows.items()]
        assert sorted(seen, key=repr) == sorted(
            [row for row in live if self.horizon <= row[2] < time], key=repr
        )

    def finish(self, tables: list[KeyedTable]) -> list[TableVersion]:
        return [each.finish_epoch(self.epoch)[0] for each in tables]


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[pa.DataType], Hasher, list[tuple[str, Any]]]:
    types = draw(st.lists(st.sampled_from(KEY_VALUES), min_size=1, max_size=2))
    keys = st.tuples(*(st.sampled_from(values) for _, values in types))
    change = st.tuples(
        keys,
        st.none() | st.lists(st.sampled_from(["x", "yy", None]), max_size=2),
        st.integers(0, 20),
        st.booleans(),
    )
    step = st.one_of(
        st.tuples(st.just("put"), st.lists(change, max_size=6)),
        st.tuples(st.just("put"), st.lists(change, max_size=6)),
        st.tuples(st.just("lookup"), st.lists(keys, max_size=8)),
        st.tuples(st.sampled_from(["batch", "epoch", "retry", "restore", "scan"]), st.none()),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
        st.tuples(st.just("expire"), st.integers(0, 15)),
        st.tuples(st.just("older"), st.integers(0, 21)),
    )
    steps = draw(st.lists(step, max_size=40))
    hasher = draw(st.sampled_from([constant_hash, few_hashes, wide_hash]))
    return [kind for kind, _ in types], hasher, steps


@settings(max_examples=200, deadline=None)
@given(life=lives(), index_rows_min=st.sampled_from([1, 1000]))
def test_a_table_is_a_dict_whatever_happens_in_between(
    life: tuple[list[pa.DataType], Hasher, list[tuple[str, Any]]], index_rows_min: int
) -> None:
    key_types, hasher, steps = life
    run = Life(new_world(), key_types, hasher)
    tables = run.open()
    with patch.object(search, "TIME_INDEX_ROWS_MIN", index_rows_min):
        for action, what in steps:
            tables = take_step(run, tables, action, what)
        run.check_scan(tables)
        run.check_older(tables, 100)
    run.check_lookup(tables, [row[0] for row in run.rows.values()])
    shutil.rmtree(run.world.folder)


def take_step(run: Life, tables: list[KeyedTable], action: str, what: Any) -> list[KeyedTable]:
    match action:
        case "put":
            run.put(tables, what)
            return tables
        case "lookup":
            run.check_lookup(tables, what)
            return tables
        case "scan":
            run.check_scan(tables)
            return tables
        case "older":
            run.check_older(tables, what)
            return tables
        case "expire":
            run.horizon = max(run.horizon, what)
            for each in tables:
                each.expire(what)
            return tables
        case "batch":
            run.batch += 1
            run.versions = [each.finish_batch(run.epoch, run.batch) for each in tables]
        case "retry":
            # The checkpoint was aborted: the same epoch ends once more, later.
            run.versions = list(run.finish(tables))
        case "epoch":
            versions = run.finish(tables)
            run.saved = (dict(run.rows), [state_from_version(v) for v in versions], run.epoch)
            run.versions = list(versions)
            run.epoch += 1
        case "restore":
            if run.saved is None:
                return tables
            # Rows expired by now may be back in the dict; the horizon still hides them.
            rows, states, epoch = run.saved
            run.rows, run.epoch, run.parallelism = dict(rows), epoch + 1, len(states)
            run.versions = [version_from_state(state) for state in states]
            run.world.generation += 1
            run.world.lose_cache()
        case "rescale":
            states = [state_from_version(version) for version in run.finish(tables)]
            run.parallelism = what
            restored = rescale(states, what)
            run.versions = list(restored)
            run.saved = (dict(run.rows), [state_from_version(v) for v in restored], run.epoch)
            run.epoch += 1
            run.world.generation += 1
    return run.open()


@pytest.fixture
def world() -> World:
    return new_world()


TIMED = pa.schema(
    [("_hash", pa.int32()), ("key", pa.int64()), ("_time", pa.int64()), ("value", pa.int64())]
)


def timed(rows: list[tuple[int, int | None, int]]) -> pa.Table:
    return pa.table(
        {
            "_hash": pa.array([key for key, _, _ in rows], pa.int32()),
            "key": pa.array([key for key, _, _ in rows], pa.int64()),
            "_time": pa.array([time for _, time, _ in rows], pa.int64()),
            "value": pa.array([value for _, _, value in rows], pa.int64()),
        }
    )


def one_epoch(
    world: World,
    version: TableVersion | None,
    epoch: int,
    rows: list[tuple[int, int | None, int]],
    *,
    deleted: list[int] | None = None,
    expire: int = WATERMARK_MIN,
    fanout: int = 100,
) -> TableVersion:
    table = KeyedTable.open(world.io(fanout=fanout), version, TIMED, ["key"])
    table.expire(expire)
    table.put(timed(rows))
    table.delete(timed([(key, None, 0) for key in deleted or []]))
    return table.finish_epoch(epoch)[0]


def values(
    world: World, version: TableVersion, keys: list[int], *, expire: int = WATERMARK_MIN
) -> list[int | None]:
    table = KeyedTable.open(world.io(), version, TIMED, ["key"])
    table.expire(expire)
    found: list[int | None] = table.lookup(timed([(key, 0, 0) for key in keys]))[0][
        "value"
    ].to_pylist()
    return found


def test_a_retried_epoch_takes_in_what_it_wrote_the_first_time(world: World) -> None:
    version = one_epoch(world, None, 1, [(1, 0, 10), (2, 0, 20)])
    aborted = one_epoch(world, version, 2, [(1, 0, 11), (3, 0, 30)])
    version = one_epoch(world, aborted, 2, [(1, 0, 12)])
    assert [(run.first_epoch, run.last_epoch) for run in version.runs] == [(1, 1), (2, 2)]
    assert values(world, version, [1, 2, 3]) == [12, 20, 30]


def test_expired_runs_are_dropped_unread_from_the_oldest_on(world: World) -> None:
    version = one_epoch(world, None, 1, [(1, 10, 1), (2, 12, 2)])
    version = one_epoch(world, version, 2, [(3, 30, 3)], deleted=[9])
    version = one_epoch(world, version, 3, [(4, 15, 4)])
    world.lose_cache()
    after = one_epoch(world, version, 4, [], expire=20)
    assert [run.last_epoch for run in after.runs] == [2, 3]
    assert world.store.gets == []
    assert values(world, after, [1, 2, 3, 4], expire=20) == [None, None, 3, None]
    # Tombstones without a time do not keep a run alive.
    assert [run.last_epoch for run in one_epoch(world, after, 5, [], expire=31).runs] == []


def test_expired_runs_behind_a_live_one_still_hide_what_is_older(world: World) -> None:
    version = one_epoch(world, None, 1, [(1, 30, 1)])
    version = one_epoch(world, version, 2, [(1, 10, 2)])
    after = one_epoch(world, version, 3, [(2, 30, 3)], expire=20)
    assert values(world, after, [1], expire=20) == [None]
    merged = one_epoch(world, after, 4, [(3, 30, 4)], expire=20, fanout=2)
    assert values(world, merged, [1, 2, 3], expire=20) == [None, 3, 4]
    assert [run.rows for run in merged.runs] == [2]


def test_a_row_without_a_time_never_expires(world: World) -> None:
    version = one_epoch(world, None, 1, [(1, None, 1), (2, 10, 2)])
    after = one_epoch(world, version, 2, [(3, 30, 3)], expire=20)
    assert values(world, after, [1, 2, 3], expire=20) == [1, None, 3]


def test_tombstones_leave_only_with_the_oldest_run(world: World) -> None:
    version = one_epoch(world, None, 1, [(key, 0, key) for key in range(20_000)])
    for epoch in range(2, 5):
        version = one_epoch(world, version, epoch, [], deleted=[epoch], fanout=4)
    # Three small runs and none of the large one: the tombstones are still needed.
    version = one_epoch(world, version, 5, [], deleted=[5], fanout=4)
    assert [run.rows for run in version.runs] == [20_000, 4]
    assert values(world, version, [2, 5, 6]) == [None, None, 6]
    version = one_epoch(world, version, 6, [], deleted=list(range(6, 20_000)), fanout=2)
    assert [run.rows for run in version.runs] == [2]
    assert values(world, version, [0, 1, 2, 6]) == [0, 1, None, None]


def test_a_table_of_nothing_but_keys(world: World) -> None:
    schema = pa.schema([("_hash", pa.int32()), ("key", pa.string())])
    rows = pa.table({"_hash": pa.array([2, 1], pa.int32()), "key": ["b", "a"]})
    table = KeyedTable.open(world.io(), None, schema, ["key"])
    assert table.lookup(rows)[1].to_pylist() == [False, False]
    table.put(rows)
    table = KeyedTable.open(world.io(), table.finish_epoch(1)[0], schema, ["key"])
    asked = pa.table({"_hash": pa.array([1, 2, 3], pa.int32()), "key": ["a", "b", "c"]})
    assert table.lookup(asked)[1].to_pylist() == [True, True, False]


def test_input_may_be_encoded_otherwise(world: World) -> None:
    schema = pa.schema([("_hash", pa.int32()), ("key", pa.string()), ("value", pa.int64())])
    table = KeyedTable.open(world.io(), None, schema, ["key"])
    keys = pa.chunked_array([["a"], ["b", None]]).dictionary_encode()
    hashes = pa.chunked_array([[1, 2], [3]], pa.int64())
    table.put(pa.table({"value": pa.array([1, 2, 3], pa.int32()), "key": keys, "_hash": hashes}))
    asked = pa.table(
        {"key": pa.array(["b", None, "z"], pa.large_string()), "_hash": pa.array([2, 3, 3])}
    )
    found, mask = table.lookup(asked)
    assert found["value"].to_pylist() == [2, 3, None]
    assert mask.to_pylist() == [True, True, False]


def test_writing_and_reading_in_turn_sees_the_latest(world: World) -> None:
    table = KeyedTable.open(world.io(), None, TIMED, ["key"])
    for step in range(60):
        table.put(timed([(step % 7, 0, step), (100 + step, 0, step)]))
        found = table.lookup(timed([(key, 0, 0) for key in range(7)]))[0]["value"].to_pylist()
        wanted = [
            max((s for s in range(step + 1) if s % 7 == key), default=None) for key in range(7)
        ]
        assert found == wanted
    assert table.scan().num_rows == 67


def test_only_files_with_something_that_old_are_opened(world: World) -> None:
    version = one_epoch(world, None, 1, [(1, 10, 1), (2, 12, 2)])
    version = one_epoch(world, version, 2, [(3, 30, 3), (2, 31, 4)])
    world.lose_cache()
    table = KeyedTable.open(world.io(), version, TIMED, ["key"])
    assert table.older_than(10).num_rows == 0
    assert world.store.gets == []
    found = table.older_than(20)
    assert found.to_pylist() == [{"_hash": 1, "key": 1, "_time": 10, "value": 1}]
    table.expire(11)
    assert table.older_than(31)["key"].to_pylist() == [3]
