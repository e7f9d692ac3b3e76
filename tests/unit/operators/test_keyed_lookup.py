"""The lookup join in the tasks: what is asked for, what is remembered, and what is joined."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.connectors.base import LookupCache
from headgate.core.errors import UserError
from headgate.operators.lookup_join import task as module
from headgate.operators.lookup_join.task import KeyedLookupTask, distinct_keys, monotonic_ms

ROWS = pa.schema({"a": pa.int64(), "b": pa.string(), "v": pa.string()})


class Table:
    """A lookup table in memory, by (a, b), that knows what it was asked for."""

    def __init__(self, rows: dict[tuple[int, str], str], cache: LookupCache) -> None:
        self.rows = [(a, b, v) for (a, b), v in rows.items()]
        self.cache = cache
        self.asked: list[list[tuple[int, str]]] = []

    def check(self) -> None:
        """There is nothing to look at."""

    def find(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        wanted = [tuple(row.values()) for row in keys.to_pylist()]
        assert keys.schema.names == ["a", "b"]
        assert len(set(wanted)) == len(wanted)
        assert not any(None in key for key in wanted)
        self.asked.append(wanted)
        found = [row for row in self.rows if row[:2] in set(wanted)]
        return pa.Table.from_pylist([dict(zip("abv", r, strict=True)) for r in found], schema)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    module._REMEMBERED.clear()
    yield
    module._REMEMBERED.clear()


class World:
    """A task over a table, with a clock."""

    def __init__(
        self,
        rows: dict[tuple[int, str], str],
        *,
        join: str = "left",
        bytes_max: int = 1_000_000,
        ttl_ms: int = 1_000,
    ) -> None:
        self.table = Table(rows, LookupCache(bytes_max=bytes_max, ttl_ms=ttl_ms))
        self.now_ms = 0
        self.task = KeyedLookupTask(
            name="job/1/lookup",
            table="people",
            lookup=self.table,
            join=join,
            key_columns=["_key_a", "_key_b"],
            primary_key=["a", "b"],
            rows_schema=ROWS,
            schema=pa.schema({"id": pa.int64(), **{f"r_{f.name}": f.type for f in ROWS}}),
            now_ms=lambda: self.now_ms,
        )

    def run(self, *batches: list[tuple[int | None, str | None]]) -> list[list[Any]]:
        given = [
            pa.record_batch(
                {
                    "id": pa.array(range(len(keys)), pa.int64()),
                    "_key_a": pa.array([a for a, _ in keys], pa.int64()),
                    "_key_b": pa.array([b for _, b in keys], pa.string()),
                }
            )
            for keys in batches
        ]
        joined = list(self.task(iter(given)))
        return [[(r["id"], r["r_v"]) for r in batch.to_pylist()] for batch in joined]


FOUND = {(1, "x"): "one", (2, "x"): "two", (1, "y"): "other"}


def test_left_keeps_every_row_and_inner_those_that_are_found() -> None:
    keys: list[tuple[int | None, str | None]] = [
        (1, "x"),
        (9, "x"),
        (None, "x"),
        (1, None),
        (1, "y"),
        (1, "x"),
    ]
    expected = [(0, "one"), (1, None), (2, None), (3, None), (4, "other"), (5, "one")]
    assert World(FOUND).run(keys) == [expected]
    module._REMEMBERED.clear()
    inner = World(FOUND, join="inner")
    assert inner.run(keys) == [[row for row in expected if row[1]]]
    assert inner.run([(None, None), (7, "x")], []) == [[]]


def test_a_key_is_asked_for_once_although_it_has_no_row() -> None:
    world = World(FOUND)
    world.run([(1, "x"), (9, "x"), (1, "x")], [(1, "x"), (2, "x")])
    assert world.run([(2, "x"), (9, "x")]) == [[(0, "two"), (1, None)]]
    assert world.table.asked == [[(1, "x"), (9, "x")], [(2, "x")]]


def test_what_is_too_old_is_asked_for_again() -> None:
    world = World(FOUND, ttl_ms=1_000)
    world.run([(1, "x"), (9, "x")])
    world.now_ms = 999
    world.run([(1, "x"), (9, "x"), (2, "x")])
    assert len(world.table.asked) == 2
    world.table.rows = [(1, "x", "new"), (9, "x", "come"), (2, "x", "later")]
    world.now_ms = 1_000
    assert world.run([(1, "x"), (9, "x"), (2, "x")]) == [[(0, "new"), (1, "come"), (2, "two")]]
    assert world.table.asked[-1] == [(1, "x"), (9, "x")]


@pytest.mark.parametrize("limits", [{"ttl_ms": 0}, {"bytes_max": 0}])
def test_without_a_cache_every_batch_asks(limits: dict[str, int]) -> None:
    world = World(FOUND, **limits)
    world.run([(1, "x")], [(1, "x")])
    assert len(world.table.asked) == 2


def test_what_is_remembered_has_a_bound() -> None:
    many = {(number, "x"): "v" * 100 for number in range(2_000)}
    world = World(many, bytes_max=50_000)
    for number in range(2_000):
        world.run([(number, "x")])
        remembered = module._REMEMBERED["job/1/lookup"]
        assert remembered._young.bytes + remembered._old.bytes <= 50_000 + 1_000
    assert len(world.table.asked) == 2_000
    # The latest are still known, the first are not.
    world.run([(1_999, "x"), (1_950, "x")])
    assert len(world.table.asked) == 2_000
    world.run([(0, "x")])
    assert len(world.table.asked) == 2_001


def test_an_answer_that_is_too_large_is_not_remembered() -> None:
    world = World({(1, "x"): "v" * 10_000}, bytes_max=1_000)
    for _ in range(3):
        assert world.run([(1, "x")])[0][0][1] == "v" * 10_000
    assert len(world.table.asked) == 3


def test_two_rows_of_one_key_are_refused() -> None:
    world = World({})
    world.table.rows = [(7, "x", "Ann"), (8, "x", "Bo"), (7, "x", "Cy")]
    with pytest.raises(UserError, match=r"'people' has 2 rows for the primary key \(7, 'x'\)"):
        world.run([(7, "x"), (8, "x")])


def test_a_task_can_travel() -> None:
    task = World(FOUND).task
    task.now_ms = monotonic_ms
    assert pickle.loads(pickle.dumps(task)).primary_key == ["a", "b"]


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from("xyz"), st.booleans())
    )
)
def test_keys_are_distinct_and_nulls_are_none(rows: list[tuple[Any, Any, bool]]) -> None:
    columns = [
        pa.array([row[0] for row in rows], pa.int64()),
        pa.array([row[1] for row in rows], pa.string()),
        pa.array([row[2] for row in rows], pa.bool_()),
    ]
    numbers, firsts = distinct_keys(columns)
    for row, number in zip(rows, numbers, strict=True):
        assert (number == -1) == (None in row)
        if number >= 0:
            assert rows[firsts[number]] == row
    present = {row for row in rows if None not in row}
    assert len(firsts) == len(present)
    assert numbers.dtype == np.int64
