"""Updating aggregates: the changes add up to the batch result, whatever happens in between."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MIN
from headgate.operators.updating_aggregate.rows_task import UpdatingRowsTask
from headgate.operators.updating_aggregate.task import UpdatingTask
from tests.unit.operators.operator_life import OperatorLife, Rows, Step, key_hash, play, steps

DAY = 86_400_000_000
PARTIALS = pa.schema(
    [
        ("k", pa.string()),
        ("_rows", pa.int64()),
        ("total", pa.int64()),
        ("high", pa.int64()),
        ("_time", pa.int64()),
        ("_hash", pa.int32()),
    ]
)
MERGES = {"_rows": "sum", "total": "sum", "high": "max"}
ROWS = pa.schema(
    [
        ("k", pa.string()),
        ("v", pa.int64()),
        ("_n", pa.int64()),
        ("_time", pa.int64()),
        ("_hash", pa.int32()),
    ]
)


def partials_task(ttl_us: int = DAY, *, input_updating: bool = False) -> UpdatingTask:
    return UpdatingTask(PARTIALS, ("k",), MERGES, ttl_us, input_updating)


def rows_task(ttl_us: int = DAY, *, input_updating: bool = False) -> UpdatingRowsTask:
    return UpdatingRowsTask(ROWS, ("k",), ("v",), ttl_us, input_updating)


# (key, value, time, op)
Event = tuple[str | None, int | None, int, int]
keys = st.none() | st.sampled_from(["a", "b", "c", "d"])
values = st.none() | st.integers(-2, 2)
inserts = st.lists(st.tuples(keys, values, st.integers(0, 50), st.just(1)), max_size=40)


@st.composite
def with_retractions(draw: st.DrawFn) -> list[Event]:
    """Inserts, and retractions of what was inserted before."""
    events: list[Event] = []
    for insert in draw(inserts):
        events.append(insert)
        if draw(st.booleans()):
            live = Counter(e[:2] for e in events if e[3] > 0)
            live -= Counter(e[:2] for e in events if e[3] < 0)
            key, value = draw(st.sampled_from(sorted(live.elements(), key=repr)))
            events.append((key, value, insert[2], -1))
    return events


def as_partials(events: list[Event]) -> pa.Table:
    groups: dict[str | None, list[Event]] = defaultdict(list)
    for event in events:
        groups[event[0]].append(event)
    rows = []
    for key, members in groups.items():
        known = [(v, op) for _, v, _, op in members if v is not None]
        rows.append(
            {
                "k": key,
                "_rows": sum(op for *_, op in members),
                "total": sum(v * op for v, op in known) if known else None,
                "high": max((v for v, _ in known), default=None),
                "_time": max(t for _, _, t, _ in members),
                "_hash": key_hash(key),
            }
        )
    return pa.Table.from_pylist(rows, schema=PARTIALS)


def as_rows(events: list[Event]) -> pa.Table:
    rows = [{"k": k, "v": v, "_n": op, "_time": t, "_hash": key_hash(k)} for k, v, t, op in events]
    return pa.Table.from_pylist(rows, schema=ROWS)


def feed(life: OperatorLife, events: list[Event], script: list[Step]) -> Rows:
    by_rows = isinstance(life.make_task(), UpdatingRowsTask)

    def prepare(start: int, end: int) -> tuple[pa.Table, int | None]:
        part = events[start:end]
        times = [t for _, _, t, _ in part]
        return (as_rows if by_rows else as_partials)(part), max(times, default=None)

    return play(life, len(events), script, prepare, delay=5)


def fold_pairs(output: Rows) -> dict[Any, tuple[Any, ...]]:
    """Apply pairs of old and new; every old one must be what was there."""
    state: dict[Any, tuple[Any, ...]] = {}
    for row in output:
        before = tuple(row[f"_old_{name}"] for name in MERGES)
        assert (row["k"] in state) == row["_old"], row
        if row["_old"]:
            assert state.pop(row["k"]) == before
        if row["_new"]:
            state[row["k"]] = tuple(row[f"_new_{name}"] for name in MERGES)
    return state


def fold_bags(batches: list[Rows]) -> dict[Any, Counter[Any]]:
    """Apply bags before and after, micro-batch by micro-batch."""
    state: dict[Any, Counter[Any]] = {}
    for output in batches:
        bags: dict[tuple[Any, int], Counter[Any]] = defaultdict(Counter)
        for row in output:
            bags[row["k"], row["_which"]][row["v"]] += 1
        for key in {key for key, _ in bags}:
            assert state.pop(key, Counter()) == bags.get((key, 0), Counter())
            if bags.get((key, 1)):
                state[key] = bags[key, 1]
    return state


@pytest.fixture
def lives() -> Iterator[list[OperatorLife]]:
    made: list[OperatorLife] = []
    yield made
    for life in made:
        life.close()


@settings(max_examples=60, deadline=None)
@given(events=inserts, script=steps)
def test_partials_add_up_to_the_batch_result(events: list[Event], script: list[Step]) -> None:
    life = OperatorLife(partials_task)
    state = fold_pairs(feed(life, events, script))
    life.close()
    expected = {
        row["k"]: tuple(row[name] for name in MERGES) for row in as_partials(events).to_pylist()
    }
    assert state == expected


@settings(max_examples=60, deadline=None)
@given(events=with_retractions(), script=steps)
def test_retractions_take_partials_back_and_keys_away(
    events: list[Event], script: list[Step]
) -> None:
    life = OperatorLife(lambda: partials_task(input_updating=True))
    state = fold_pairs(feed(life, events, script))
    life.close()
    live = Counter(e[:2] for e in events if e[3] > 0)
    live -= Counter(e[:2] for e in events if e[3] < 0)
    counts: Counter[Any] = Counter()
    for (key, _), count in live.items():
        counts[key] += count
    assert {key: row[0] for key, row in state.items()} == dict(counts)


@settings(max_examples=60, deadline=None)
@given(events=with_retractions(), script=steps)
def test_bags_of_rows_add_up_under_retractions(events: list[Event], script: list[Step]) -> None:
    life = OperatorLife(lambda: rows_task(input_updating=True))
    feed(life, events, script)
    life.close()
    live = Counter(e[:2] for e in events if e[3] > 0)
    live -= Counter(e[:2] for e in events if e[3] < 0)
    expected: dict[Any, Counter[Any]] = defaultdict(Counter)
    for (key, value), count in live.items():
        expected[key][value] = count
    assert fold_bags(life.batches) == dict(expected)


def test_a_key_that_expires_is_retracted_once_and_starts_anew(lives: list[OperatorLife]) -> None:
    # One subtask, so that both keys share their files and no file expires as a whole.
    life = OperatorLife(lambda: partials_task(ttl_us=640), parallelism=1)
    lives.append(life)
    life.run(as_partials([("a", 1, 0, 1), ("b", 1, 600, 1)]), WATERMARK_MIN)
    life.run(as_partials([]), 600, barrier=True)
    assert len(life.output) == 2
    # What is reached by one micro-batch expires keys in the next.
    assert life.run(as_partials([]), 700, barrier=True) == []
    gone = life.run(as_partials([]), 700)
    assert [(r["k"], r["_old"], r["_new"], r["_old_total"]) for r in gone] == [
        ("a", True, False, 1)
    ]
    # The retraction is lost with its micro-batch, and comes again.
    life.crash(3)
    assert [r["k"] for r in life.run(as_partials([]), 700, barrier=True)] == ["a"]
    assert life.run(as_partials([]), 720) == []
    life.crash(1)
    back = life.run(as_partials([("a", 5, 720, 1)]), 720)
    assert [(r["_old"], r["_new_total"]) for r in back] == [(False, 5)]
    assert life.run(as_partials([]), 1250) == []
    assert life.run(as_partials([]), 1250)[0]["k"] == "b"


def test_a_late_row_lives_until_the_next_step_of_the_expiry(lives: list[OperatorLife]) -> None:
    life = OperatorLife(lambda: partials_task(ttl_us=640))
    lives.append(life)
    life.run(as_partials([]), 2000)
    assert [r["k"] for r in life.run(as_partials([("a", 1, 0, 1)]), 2000)] == ["a"]
    assert life.run(as_partials([]), 2020) == []
    assert [r["k"] for r in life.run(as_partials([]), 2020)] == ["a"]


def test_an_expired_key_that_comes_back_is_replaced_not_added_to(
    lives: list[OperatorLife],
) -> None:
    for task in (partials_task, rows_task):
        life = OperatorLife(lambda task=task: task(ttl_us=640))
        lives.append(life)
        prepare = as_rows if task is rows_task else as_partials
        life.run(prepare([("a", 1, 0, 1)]), 1990)
        given_rows = life.run(prepare([("a", 5, 2000, 1)]), 1990)
        if task is rows_task:
            assert sorted((r["_which"], r["v"]) for r in given_rows) == [(0, 1), (1, 5)]
        else:
            (row,) = given_rows
            assert (row["_old_total"], row["_new_total"]) == (1, 5)


def test_expired_bags_are_retracted_whole(lives: list[OperatorLife]) -> None:
    life = OperatorLife(lambda: rows_task(ttl_us=640))
    lives.append(life)
    life.run(as_rows([("a", 1, 0, 1), ("a", 1, 1, 1), ("a", 2, 2, 1)]), 0, barrier=True)
    assert life.run(as_rows([]), 2000) == []
    gone = life.run(as_rows([]), 2000)
    assert sorted((r["k"], r["_which"], r["v"]) for r in gone) == [("a", 0, v) for v in (1, 1, 2)]
    assert life.run(as_rows([]), 3000) == []
    back = life.run(as_rows([("a", 9, 3000, 1)]), 3000)
    assert [(r["_which"], r["v"]) for r in back] == [(1, 9)]


def test_the_end_of_data_expires_nothing(lives: list[OperatorLife]) -> None:
    life = OperatorLife(lambda: partials_task(ttl_us=640))
    lives.append(life)
    feed(life, [("a", 1, 0, 1)], [])
    assert len(life.output) == 1


def test_a_row_that_comes_and_goes_in_one_batch_changes_nothing(lives: list[OperatorLife]) -> None:
    life = OperatorLife(lambda: rows_task(input_updating=True))
    lives.append(life)
    assert life.run(as_rows([("a", 1, 0, 1), ("a", 1, 0, -1)]), 0) == []
    assert life.run(as_rows([("b", 1, 0, -1)]), 0) == []
    assert len(life.run(as_rows([("b", 1, 0, 1)]), 0)) == 1
