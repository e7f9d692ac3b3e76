"""Multi tables against a plain list: a deletion takes away one earlier equal row."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import TableState
from headgate.state.tables import (
    MultiTable,
    TableVersion,
    state_from_version,
    version_from_state,
)
from headgate.state.tables.multi_table import survivors
from tests.support.table_world import World, new_world, rescale

SCHEMA = pa.schema(
    [
        ("_hash", pa.int32()),
        ("key", pa.string()),
        ("tags", pa.list_(pa.int32())),
        ("n", pa.float64()),
        ("attributes", pa.map_(pa.string(), pa.int32())),
    ]
)
# key, tags, n, deleted
Change = tuple[str | None, list[int | None] | None, float | None, bool]

changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([None, [], [1], [1, None]]),
        st.sampled_from([None, 1.0, 2.0]),
        st.integers(0, 2).map(lambda n: n == 0),
    ),
    max_size=6,
)
keys = st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), changes),
        st.tuples(st.just("put"), changes),
        st.tuples(st.just("lookup"), keys),
        st.tuples(st.sampled_from(["batch", "epoch", "retry", "restore", "scan"]), st.none()),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
    ),
    max_size=40,
)


def row(change: Change) -> tuple[Any, ...]:
    key, tags, n, _ = change
    return key, None if tags is None else tuple(tags), n


def plain(record: dict[str, Any]) -> tuple[Any, ...]:
    return row((record["key"], record["tags"], record["n"], False))


@dataclass
class Life:
    world: World
    same_hash: bool
    parallelism: int = 1
    epoch: int = 1
    batch: int = 0
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    saved: tuple[list[tuple[Any, ...]], list[TableState], int] | None = None
    versions: list[TableVersion | None] = field(default_factory=lambda: [None])

    def hash(self, key: str | None) -> int:
        return 5 if self.same_hash or key is None else ord(key) * 7919 - 770000

    def open(self) -> list[MultiTable]:
        return [
            MultiTable.open(
                self.world.io(subtask=subtask, run_bytes_max=400, fanout=3, scratch_fanout=2),
                version,
                SCHEMA,
                ["key"],
            )
            for subtask, version in enumerate(self.versions)
        ]

    def put(self, tables: list[MultiTable], new: list[Change]) -> None:
        for subtask, each in enumerate(tables):
            mine = [c for c in new if self.hash(c[0]) % self.parallelism == subtask]
            each.put(
                pa.table(
                    {
                        "_hash": pa.array([self.hash(c[0]) for c in mine], pa.int32()),
                        "key": pa.array([c[0] for c in mine], pa.string()),
                        "tags": pa.array([c[1] for c in mine], pa.list_(pa.int32())),
                        "n": pa.array([c[2] for c in mine], pa.float64()),
                        "attributes": pa.array(
                            [[("x", 1)] if c[2] else None for c in mine],
                            pa.map_(pa.string(), pa.int32()),
                        ),
                        "_deleted": pa.array([c[3] for c in mine], pa.bool_()),
                    }
                )
            )
        for change in new:
            if not change[3]:
                self.rows.append(row(change))
            elif row(change) in self.rows:
                self.rows.remove(row(change))

    def check(self, tables: list[MultiTable], wanted: list[str | None]) -> None:
        for subtask, each in enumerate(tables):
            mine = [key for key in wanted if self.hash(key) % self.parallelism == subtask]
            asked = pa.table(
                {
                    "_hash": pa.array([self.hash(key) for key in mine], pa.int32()),
                    "key": pa.array(mine, pa.string()),
                }
            )
            found, index = each.lookup_all(asked)
            assert found.column_names == ["_hash", "key", "tags", "n", "attributes"]
            assert index.tolist() == sorted(index.tolist())
            answer: list[list[Any]] = [[] for _ in mine]
            for position, record in zip(index.tolist(), found.to_pylist(), strict=True):
                answer[position].append(plain(record))
            for key, rows in zip(mine, answer, strict=True):
                assert sorted(rows, key=repr) == sorted(
                    [row for row in self.rows if row[0] == key], key=repr
                )

    def check_scan(self, tables: list[MultiTable]) -> None:
        seen = [plain(record) for each in tables for record in each.scan().to_pylist()]
        assert sorted(seen, key=repr) == sorted(self.rows, key=repr)


@settings(max_examples=200, deadline=None)
@given(steps=steps, same_hash=st.booleans())
def test_a_table_is_a_bag_of_rows_whatever_happens_in_between(
    steps: list[tuple[str, Any]], same_hash: bool
) -> None:
    life = Life(new_world(), same_hash)
    tables = life.open()
    for action, what in steps:
        tables = take_step(life, tables, action, what)
    life.check_scan(tables)
    life.check(tables, ["a", "b", "c", None])
    shutil.rmtree(life.world.folder)


def take_step(life: Life, tables: list[MultiTable], action: str, what: Any) -> list[MultiTable]:
    match action:
        case "put":
            life.put(tables, what)
            return tables
        case "lookup":
            life.check(tables, what)
            return tables
        case "scan":
            life.check_scan(tables)
            return tables
        case "batch":
            life.batch += 1
            life.versions = [each.finish_batch(life.epoch, life.batch) for each in tables]
        case "retry":
            life.versions = [each.finish_epoch(life.epoch)[0] for each in tables]
        case "restore":
            if life.saved is None:
                return tables
            rows, states, epoch = life.saved
            life.rows, life.epoch, life.parallelism = list(rows), epoch + 1, len(states)
            life.versions = [version_from_state(state) for state in states]
            life.world.generation += 1
            life.world.lose_cache()
        case _:
            versions = [each.finish_epoch(life.epoch)[0] for each in tables]
            if action == "rescale":
                life.parallelism = what
                versions = rescale([state_from_version(v) for v in versions], what)
                life.world.generation += 1
            life.saved = (list(life.rows), [state_from_version(v) for v in versions], life.epoch)
            life.versions = list(versions)
            life.epoch += 1
    return life.open()


def test_expired_rows_are_absent_and_leave_the_files() -> None:
    world = new_world()
    schema = pa.schema([("_hash", pa.int32()), ("key", pa.int64()), ("_time", pa.int64())])
    rows = pa.table({"_hash": [1, 1, 2], "key": [1, 1, 2], "_time": [10, 20, 10]})
    table = MultiTable.open(world.io(), None, schema, ["key"])
    table.put(rows)
    version, _ = table.finish_epoch(1)
    table = MultiTable.open(world.io(fanout=2), version, schema, ["key"])
    table.expire(15)
    found, index = table.lookup_all(rows.select(["_hash", "key"]))
    assert (found["_time"].to_pylist(), index.tolist()) == ([20, 20], [0, 1])
    table.put(rows.slice(1, 1))
    version, _ = table.finish_epoch(2)
    assert [run.rows for run in version.runs] == [2]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1),
    st.booleans(),
)
def test_survivors_are_those_of_a_plain_loop(
    entries: list[tuple[int, bool]], drop_unmatched: bool
) -> None:
    counts: dict[int, int] = {}
    unmatched: dict[int, int] = {}
    for code, deleted in entries:
        if not deleted:
            counts[code] = counts.get(code, 0) + 1
        elif counts.get(code, 0):
            counts[code] -= 1
        else:
            unmatched[code] = unmatched.get(code, 0) + 1
    codes = np.array([code for code, _ in entries])
    deleted = np.array([deleted for _, deleted in entries])
    kept = survivors(codes, deleted, drop_unmatched=drop_unmatched)
    for code in range(3):
        mine = kept & (codes == code)
        assert int((mine & ~deleted).sum()) == counts.get(code, 0)
        lost = 0 if drop_unmatched else unmatched.get(code, 0)
        assert int((mine & deleted).sum()) == lost
        # What remains must say the same again: deletions of older rows first, then new rows.
        assert sorted(deleted[mine].tolist(), reverse=True) == deleted[mine].tolist()
