"""A join of two streams finds every pair exactly once."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.operators.updating_join import task as updating_join
from headgate.operators.updating_join.task import UpdatingJoinTask
from tests.unit.operators.operator_life import OperatorLife, Step, key_hash, play, steps

SCHEMA = pa.schema(
    [
        ("_k0", pa.string()),
        ("_side", pa.int32()),
        ("l_id", pa.int64()),
        ("r_id", pa.string()),
        ("_time", pa.int64()),
        ("_hash", pa.int32()),
    ]
)
# (key, side, time)
Event = tuple[str, int, int]


def task(ttl_us: int = 10**9) -> UpdatingJoinTask:
    return UpdatingJoinTask(SCHEMA, ("_k0",), ("l_id",), ("r_id",), ttl_us)


def table(events: list[Event], start: int = 0) -> pa.Table:
    rows = [
        {
            "_k0": key,
            "_side": side,
            "l_id": start + i if side == 0 else None,
            "r_id": str(start + i) if side == 1 else None,
            "_time": time,
            "_hash": key_hash(key),
        }
        for i, (key, side, time) in enumerate(events)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@settings(max_examples=80, deadline=None)
@given(
    events=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 50)), max_size=40
    ),
    script=steps,
    chunk=st.integers(1, 7),
)
def test_every_pair_is_found_once_wherever_the_batches_are_cut(
    events: list[Event], script: list[Step], chunk: int
) -> None:
    def prepare(start: int, end: int) -> tuple[pa.Table, int | None]:
        part = events[start:end]
        return table(part, start), max((t for *_, t in part), default=None)

    life = OperatorLife(task)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating_join, "OUTPUT_ROWS_MAX", chunk)
        output = play(life, len(events), script, prepare, delay=5)
    life.close()
    expected = Counter(
        (i, str(j), max(left[2], right[2]))
        for i, left in enumerate(events)
        for j, right in enumerate(events)
        if left[0] == right[0] and (left[1], right[1]) == (0, 1)
    )
    assert Counter((r["l_id"], r["r_id"], r["_time"]) for r in output) == expected


def test_rows_older_than_the_time_to_live_are_forgotten_or_late() -> None:
    life = OperatorLife(lambda: task(ttl_us=10))
    life.run(table([("a", 0, 0), ("a", 0, 5)]), 0, barrier=True)
    # What a micro-batch reaches itself makes none of its own rows late.
    assert life.run(table([]), 12) == []
    found = life.run(table([("a", 1, 12), ("a", 1, 1)], start=2), 12)
    assert [(r["l_id"], r["r_id"]) for r in found] == [(1, "2")]
    assert life.late == 1
    # The end of data is no passing of time.
    assert life.run(table([("a", 0, 13)], start=4), 2**62)[0]["l_id"] == 4
    life.close()
