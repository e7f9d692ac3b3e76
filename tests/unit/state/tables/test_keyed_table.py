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

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_world import World, new_world, rescale

from headgate.core.checkpoint import WATERMARK_MIN, TableState
from headgate.state.tables import (
    KeyedTable,
    TableVersion,
    state_from_version,
    version_from_state,
)

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
    )
    steps = draw(st.lists(step, max_size=40))
    hasher = draw(st.sampled_from([constant_hash, few_hashes, wide_hash]))
    return [kind for kind, _ in types], hasher, steps


@settings(max_examples=200, deadline=None)
@given(life=lives())
def test_a_table_is_a_dict_whatever_happens_in_between(
    life: tuple[list[pa.DataType], Hasher, list[tuple[str, Any]]],
) -> None:
    key_types, hasher, steps = life
    run = Life(new_world(), key_types, hasher)
    tables = run.open()
    for action, what in steps:
        tables = take_step(run, tables, action, what)
    run.check_scan(tables)
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
