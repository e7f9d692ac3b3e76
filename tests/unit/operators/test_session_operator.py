"""Sessions come out whole and once, wherever the batches are cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MIN
from headgate.operators.window_aggregate.session_task import SessionTask, merge_intervals
from tests.unit.operators.operator_life import OperatorLife, Rows, Step, key_hash, play, steps

GAP = 10
DELAY = 7
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("_start", pa.int64()),
        ("_end", pa.int64()),
        ("v", pa.int64()),
        ("_n", pa.int64()),
        ("_hash", pa.int32()),
    ]
)
# (key, time, value)
Event = tuple[str | None, int, int]


def partials_task() -> SessionTask:
    return SessionTask(SCHEMA, ("k",), {"v": "sum"})


def rows_task() -> SessionTask:
    return SessionTask(SCHEMA, ("k",), None, ("v",))


def as_rows(events: list[Event]) -> pa.Table:
    rows = [
        {"k": k, "_start": t, "_end": t + GAP, "v": v, "_n": 1, "_hash": key_hash(k)}
        for k, t, v in events
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def as_pieces(events: list[Event]) -> pa.Table:
    groups: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        groups[event[0], event[1] // GAP].append(event)
    rows = [
        {
            "k": key,
            "_start": min(t for _, t, _ in members),
            "_end": max(t for _, t, _ in members) + GAP,
            "v": sum(v for *_, v in members),
            "_n": len(members),
            "_hash": key_hash(key),
        }
        for (key, _), members in groups.items()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def sessions(events: list[Event]) -> Counter[tuple[Any, ...]]:
    """Return (key, start, end, total) of every session of all events."""
    by_key: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for key, time, value in events:
        by_key[key].append((time, value))
    found: Counter[tuple[Any, ...]] = Counter()
    for key, members in by_key.items():
        members.sort()
        start, end, total = members[0][0], members[0][0] + GAP, 0
        for time, value in members:
            if time > end:
                found[key, start, end, total] += 1
                start, total = time, 0
            end, total = time + GAP, total + value
        found[key, start, end, total] += 1
    return found


def emitted(output: Rows, *, by_rows: bool) -> Counter[tuple[Any, ...]]:
    if not by_rows:
        return Counter((r["k"], r["_start"], r["_end"], r["v"]) for r in output)
    totals: Counter[tuple[Any, ...]] = Counter()
    for r in output:
        totals[r["k"], r["_start"], r["_end"]] += r["v"]
    return Counter({(*session, total): 1 for session, total in totals.items()})


@st.composite
def event_lists(draw: st.DrawFn) -> list[Event]:
    """Events out of order by no more than the watermark's delay."""
    pauses = draw(st.lists(st.integers(0, 6), max_size=40))
    events, now = [], 0
    for pause in pauses:
        now += pause
        key = draw(st.none() | st.sampled_from("abc"))
        events.append((key, now - draw(st.integers(0, DELAY)), draw(st.integers(1, 9))))
    return events


@pytest.mark.parametrize("by_rows", [False, True], ids=["partials", "rows"])
@settings(max_examples=80, deadline=None)
@given(events=event_lists(), script=steps)
def test_sessions_do_not_depend_on_cuts_and_crashes(
    by_rows: bool, events: list[Event], script: list[Step]
) -> None:
    def prepare(start: int, end: int) -> tuple[pa.Table, int | None]:
        part = events[start:end]
        return (as_rows if by_rows else as_pieces)(part), max((t for _, t, _ in part), default=None)

    life = OperatorLife(rows_task if by_rows else partials_task)
    output = play(life, len(events), script, prepare, DELAY)
    late = life.late
    life.close()
    assert emitted(output, by_rows=by_rows) == sessions(events) if events else not output
    assert late == 0


@pytest.mark.parametrize("make_task", [partials_task, rows_task])
def test_a_row_is_late_only_when_its_session_is_closed(make_task: Any) -> None:
    life = OperatorLife(make_task)
    life.run(as_rows([("a", 100, 1)]), WATERMARK_MIN)
    life.run(as_rows([]), 105)
    # It ends before the watermark, but touches the open session; the other one touches nothing.
    life.run(as_rows([("a", 92, 2), ("b", 95, 4)]), 105)
    assert life.late == 1
    # Two rows that are late by themselves, one of which is saved by the other's neighbour.
    life.run(as_rows([("c", 90, 8), ("c", 97, 16), ("d", 60, 32)]), 106)
    assert life.late == 2
    life.run(as_rows([]), 200)
    found = emitted(life.output, by_rows=make_task is rows_task)
    assert found == Counter([("a", 92, 110, 3), ("c", 90, 107, 24)])
    life.close()


def test_a_timer_is_set_for_the_first_end_and_moves_on() -> None:
    life = OperatorLife(partials_task, parallelism=1)
    life.run(as_rows([("a", 100, 1), ("b", 120, 1)]), WATERMARK_MIN)
    assert life.timers == [110]
    life.run(as_rows([]), 110)
    assert life.timers == [130]
    life.run(as_rows([]), 130)
    assert life.timers == []
    life.close()


def test_a_session_that_grew_is_not_emitted_at_its_old_end() -> None:
    life = OperatorLife(partials_task)
    life.run(as_rows([("a", 100, 1)]), WATERMARK_MIN)
    life.run(as_rows([("a", 105, 1)]), 104, barrier=True)
    assert life.run(as_rows([]), 112) == []
    assert len(life.run(as_rows([]), 115)) == 1
    assert life.run(as_rows([]), 1000) == []
    life.close()


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(-(2**60), 2**60), st.integers(1, 2**59)),
        min_size=1,
        max_size=12,
    )
)
def test_intervals_join_where_they_touch(intervals: list[tuple[int, int, int]]) -> None:
    owner, start, length = (np.array(c, np.int64) for c in zip(*intervals, strict=True))
    merged = merge_intervals(owner, start, start + length)
    expected = []
    for one in sorted(set(owner.tolist())):
        current: list[int] | None = None
        for o, s, n in sorted(intervals):
            if o != one:
                continue
            if current is None or s > current[1]:
                current = [s, s + n]
                expected.append((one, current))
            current[1] = max(current[1], s + n)
    found = list(zip(merged.owner, merged.start, merged.end, strict=True))
    assert found == [(o, *bounds) for o, bounds in expected]
    for i, (o, s, _) in enumerate(intervals):
        session = merged.session_of[i]
        assert merged.owner[session] == o
        assert merged.start[session] <= s < merged.end[session]
