"""User code with keyed state and timers: state survives, timers fire once, mistakes are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.errors import UdfError
from headgate.operators.process.task import ProcessTask
from tests.unit.operators.operator_life import OPERATOR, OperatorLife, Step, key_hash, play, steps

STAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("v", pa.int64()),
        ("_timestamp", STAMP),
        ("_time", pa.int64()),
        ("_arrival", pa.int64()),
        ("_hash", pa.int32()),
    ]
)
OUTPUT = pa.schema([("k", pa.string()), ("total", pa.int64()), ("_timestamp", STAMP)])
# Adds up the values of a key and gives the sum when nothing has come for 10 microseconds.
QUIET_SUMS = """
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headgate.process import ProcessOperator


class QuietSums(ProcessOperator):
    state_schema = pa.schema([("total", pa.int64()), ("last", pa.int64())])

    def process(self, rows, context):
        rows = rows.append_column("time", rows["_timestamp"].cast(pa.int64()))
        sums = rows.group_by("k").aggregate([("v", "sum"), ("time", "max")])
        sums = sums.rename_columns(["k", "total", "last"])
        old = context.get_state(sums)
        total = pc.add(sums["total"], pc.fill_null(old["total"], 0))
        last = pc.max_element_wise(sums["last"], old["last"])
        context.put_state(pa.table({"k": sums["k"], "total": total, "last": last}))
        context.set_timer(sums, pc.add(last, 10).cast(pa.timestamp("us", tz="UTC")))

    def on_timer(self, keys, context):
        state = context.get_state(keys)
        context.delete_state(keys)
        return pa.table(
            {"k": keys["k"], "total": state["total"], "_timestamp": keys["_timestamp"]}
        )
"""
Event = tuple[str | None, int, int]


def table(events: list[Event], start: int = 0) -> pa.Table:
    rows = [
        {"k": k, "v": v, "_timestamp": t, "_time": t, "_arrival": start + i, "_hash": key_hash(k)}
        for i, (k, t, v) in enumerate(events)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def life_of(folder: Path, source: str, attribute: str, output: pa.Schema = OUTPUT) -> OperatorLife:
    # The text travels with the task: there is no such file.
    file = folder / "user_file.py"
    task = ProcessTask(str(file), attribute, source, SCHEMA, ("k",), ("v",), output)
    return OperatorLife(lambda: task)


def micros(row: dict[str, Any]) -> int:
    return round(row["_timestamp"].timestamp() * 1_000_000)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    events=st.lists(
        st.tuples(st.none() | st.sampled_from("abc"), st.integers(0, 9), st.integers(1, 9)),
        max_size=40,
    ),
    script=steps,
)
def test_state_and_timers_do_not_depend_on_cuts_and_crashes(
    tmp_path: Path, events: list[Event], script: list[Step]
) -> None:
    def prepare(start: int, end: int) -> tuple[pa.Table, int | None]:
        part = events[start:end]
        return table(part, start), max((t for _, t, _ in part), default=None)

    life = life_of(tmp_path, QUIET_SUMS, "QuietSums")
    # No pause is long enough for a timer before the end of data.
    output = play(life, len(events), script, prepare, delay=0)
    life.close()
    totals: Counter[Any] = Counter()
    last: dict[Any, int] = {}
    for key, time, value in events:
        totals[key] += value
        last[key] = max(time, last.get(key, 0))
    expected = Counter((key, total, last[key] + 10) for key, total in totals.items())
    assert Counter((r["k"], r["total"], micros(r)) for r in output) == expected


def test_a_timer_that_is_moved_fires_once_at_its_last_time(tmp_path: Path) -> None:
    life = life_of(tmp_path, QUIET_SUMS, "QuietSums")
    life.run(table([("a", 0, 1), ("b", 2, 1)]), WATERMARK_MIN, barrier=True)
    assert min(life.timers) == 10
    life.run(table([("a", 5, 2)], start=2), 5)
    life.crash(3)
    life.run(table([("a", 5, 2)], start=2), 5)
    fired = life.run(table([], start=3), 12)
    assert [(r["k"], r["total"], micros(r)) for r in fired] == [("b", 1, 12)]
    fired = life.run(table([], start=3), 15)
    assert [(r["k"], r["total"], micros(r)) for r in fired] == [("a", 3, 15)]
    assert life.run(table([], start=3), WATERMARK_MAX) == []
    life.close()


def test_a_timer_that_sets_itself_again_ends_with_the_data(tmp_path: Path) -> None:
    source = """
import pyarrow as pa, pyarrow.compute as pc
from headgate.process import ProcessOperator

class Ticks(ProcessOperator):
    def process(self, rows, context):
        context.set_timer(rows, rows["_timestamp"])

    def on_timer(self, keys, context):
        later = pc.add(keys["_timestamp"].cast(pa.int64()), 10)
        context.set_timer(keys, later.cast(pa.timestamp("us", tz="UTC")))
        return pa.table({"k": keys["k"], "total": pa.array([1] * len(keys), pa.int64())})
"""
    life = life_of(tmp_path, source, "Ticks")
    life.run(table([("a", 0, 1)]), WATERMARK_MIN)
    assert [micros(r) for r in life.run(table([]), 25)] == [0, 10, 20]
    assert [micros(r) for r in life.run(table([]), WATERMARK_MAX)] == [30]
    life.close()


MISTAKES = [
    ("raise KeyError('x')", r"Bad.process raised KeyError: 'x' on \{'k': 'a', 'v': 7"),
    ("return 5", "returned int, not a pyarrow.Table"),
    ("return rows.select(['k'])", "returned no column total"),
    ("return rows.rename_columns(['total', 'k', 'x'])", "the result of Bad raised"),
    ("context.get_state(pa.table({'k': ['other']}))", "not among its rows: {'k': 'other'}"),
    ("context.set_timer(rows, pa.array([None], pa.int64()))", "a timer needs a time"),
]


@pytest.mark.parametrize(("body", "message"), MISTAKES)
def test_mistakes_of_the_user_are_named_with_a_row(tmp_path: Path, body: str, message: str) -> None:
    source = f"""
import pyarrow as pa
from headgate.process import ProcessOperator

class Bad(ProcessOperator):
    def process(self, rows, context):
        {body}
"""
    life = life_of(tmp_path, source, "Bad")
    with pytest.raises(UdfError, match=message):
        life.run(table([("a", 0, 7)]), WATERMARK_MIN)
    life.close()


def test_a_file_that_cannot_be_run_is_the_users_error(tmp_path: Path) -> None:
    for source, message in [
        ("import no_such_module", "user_file.py raised ModuleNotFoundError"),
        ("", "defines no 'Bad'"),
        ("Bad = dict", "is not a ProcessOperator"),
    ]:
        life = life_of(tmp_path, source, "Bad")
        with pytest.raises(UdfError, match=message):
            life.run(table([("a", 0, 7)]), WATERMARK_MIN)
        life.close()


def test_a_schema_that_does_not_fit_the_state_is_an_error_of_the_user(tmp_path: Path) -> None:
    """Most are refused before the worker starts; one that is made at run time gets here."""
    life = life_of(tmp_path, QUIET_SUMS, "QuietSums")
    life.run(table([("a", 1, 1)]), WATERMARK_MIN, barrier=True)
    changed = QUIET_SUMS.replace('("last", pa.int64())', '("last", pa.float64())')
    task = life_of(tmp_path, changed, "QuietSums").make_task()
    life.make_task = lambda: task
    with pytest.raises(UdfError) as refused:
        life.run(table([("a", 2, 1)]), WATERMARK_MIN)
    assert "state_schema of QuietSums changed: 'last' was int64 and is now double" in str(
        refused.value
    )
    assert f"--allow-drop-state {OPERATOR}" in refused.value.message
