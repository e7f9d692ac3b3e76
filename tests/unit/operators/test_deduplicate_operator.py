"""Deduplication lets the first row of a key pass, once per time to live."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MIN
from headgate.operators.deduplicate.task import DeduplicateTask, passing_rows
from tests.unit.operators.operator_life import OperatorLife, Step, key_hash, play, steps

SCHEMA = pa.schema(
    [
        ("_k0", pa.string()),
        ("id", pa.int64()),
        ("_time", pa.int64()),
        ("_arrival", pa.int64()),
        ("_hash", pa.int32()),
    ]
)
TTL = 10
Event = tuple[str | None, int]


def task() -> DeduplicateTask:
    return DeduplicateTask(SCHEMA, ("_k0",), pa.schema([SCHEMA.field("id")]), TTL)


def table(events: list[Event], start: int = 0) -> pa.Table:
    rows = [
        {"_k0": k, "id": start + i, "_time": t, "_arrival": start + i, "_hash": key_hash(k)}
        for i, (k, t) in enumerate(events)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@settings(max_examples=80, deadline=None)
@given(
    keys=st.lists(st.none() | st.sampled_from("abc"), max_size=40),
    pauses=st.lists(st.integers(0, 8), min_size=40, max_size=40),
    script=steps,
)
def test_first_rows_pass_wherever_the_batches_are_cut(
    keys: list[str | None], pauses: list[int], script: list[Step]
) -> None:
    events = [(key, sum(pauses[:i])) for i, key in enumerate(keys)]
    expected, passed = [], dict.fromkeys(keys, -TTL)
    for number, (key, time) in enumerate(events):
        if time >= passed[key] + TTL:
            passed[key] = time
            expected.append(number)

    def prepare(start: int, end: int) -> tuple[pa.Table, int | None]:
        part = events[start:end]
        return table(part, start), max((t for _, t in part), default=None)

    life = OperatorLife(task)
    output = play(life, len(events), script, prepare, delay=0)
    life.close()
    assert sorted(row["id"] for row in output) == expected


def test_within_a_micro_batch_the_earliest_event_is_first() -> None:
    life = OperatorLife(task)
    given_rows = life.run(table([("a", 5), ("a", 3), ("a", 3), ("b", 9)]), WATERMARK_MIN)
    assert sorted(row["id"] for row in given_rows) == [1, 3]
    # A row that comes later is a duplicate even if its event is earlier.
    assert life.run(table([("a", 1), ("b", 19)], start=4), 0)[0]["id"] == 5
    life.close()


def test_of_rows_at_one_time_the_one_that_arrived_first_passes() -> None:
    groups, times, arrival = np.array([0, 0, 0]), np.array([3, 3, 5]), np.array([9, 2, 1])
    free = np.array([WATERMARK_MIN])
    assert passing_rows(groups, times, arrival, free, TTL).tolist() == [1]
    assert free.tolist() == [3 + TTL]


def test_the_state_forgets_what_no_row_can_duplicate() -> None:
    life = OperatorLife(task, parallelism=1)
    life.run(table([("a", 0), ("b", 5)]), WATERMARK_MIN, barrier=True)
    life.run(table([]), 30)
    life.run(table([("c", 40)], start=2), 30, barrier=True)
    (version,) = life._versions[0]
    assert [run.max_time for run in version.runs] == [40]
    life.close()
