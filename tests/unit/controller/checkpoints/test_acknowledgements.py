"""Who owes an acknowledgement, and that taking one does not look at the others."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from headgate.controller.checkpoints import acknowledgements
from headgate.controller.checkpoints.acknowledgements import Acknowledgements
from headgate.controller.checkpoints.phases import (
    SUBTASKS_NOTED_MAX,
    CheckpointInFlight,
    Collecting,
    Recording,
    summarize,
)
from headgate.controller.rules.events import CheckpointRequested
from headgate.controller.rules.generation import begin_generation
from headgate.controller.rules.job_facts import JobFacts, Lineage, OperatorNeed
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.step import step
from headgate.core.checkpoint import EpochCut, SubtaskAck, SubtaskTimings
from headgate.core.ids import Epoch, Generation, JobId, OperatorId, Subtask
from headgate.core.messages import SubtaskAcked

SOURCE, WINDOW, SINK = OperatorId("a_source"), OperatorId("b_window"), OperatorId("c_sink")
NEEDS = (
    OperatorNeed(operator=SOURCE, role="source"),
    OperatorNeed(operator=WINDOW, role="stateful"),
    OperatorNeed(operator=SINK, role="sink"),
)
NOW_MS = 1_000
FEW, MANY = 4, 1_000


def ack(operator: OperatorId, subtask: int, new_bytes: int = 0) -> SubtaskAck:
    return SubtaskAck(operator=operator, subtask=Subtask(subtask), new_bytes=new_bytes)


def test_a_source_owes_one_and_the_others_one_per_subtask() -> None:
    owed = Acknowledgements.none_of(NEEDS, 2).missing()
    assert owed == [(SOURCE, 0), (WINDOW, 0), (WINDOW, 1), (SINK, 0), (SINK, 1)]


def test_it_is_complete_when_nothing_is_owed() -> None:
    acks = Acknowledgements.none_of(NEEDS, 1)
    for operator in (SINK, SOURCE, WINDOW):
        assert not acks.is_complete
        acks = acks.with_ack(ack(operator, 0))
    assert acks.is_complete
    assert [one.operator for one in acks.received()] == [SOURCE, WINDOW, SINK]


@pytest.mark.parametrize("wrong", [ack(OperatorId("stranger"), 0), ack(WINDOW, 2), ack(SOURCE, 1)])
def test_what_nobody_owes_changes_nothing(wrong: SubtaskAck) -> None:
    acks = Acknowledgements.none_of(NEEDS, 2)
    assert acks.with_ack(wrong) is acks


def test_the_first_of_two_counts() -> None:
    acks = Acknowledgements.none_of(NEEDS, 2).with_ack(ack(SINK, 1, new_bytes=7))
    assert acks.with_ack(ack(SINK, 1, new_bytes=8)) is acks
    assert [one.new_bytes for one in acks.received()] == [7]


def test_an_older_set_is_not_changed_by_what_is_added_to_it() -> None:
    before = Acknowledgements.none_of(NEEDS, 2)
    one, other = before.with_ack(ack(WINDOW, 0)), before.with_ack(ack(WINDOW, 1))
    assert len(before.missing()) == 5
    assert (WINDOW, 1) in one.missing()
    assert (WINDOW, 0) in other.missing()


# ---- what is remembered of many --------------------------------------------------------------


def test_a_note_names_the_slowest_subtasks_however_many_there_are() -> None:
    """Every checkpoint is noted in the database: its row must not grow with the subtasks."""
    acks = tuple(
        replace(ack(WINDOW, subtask, new_bytes=1), timings=SubtaskTimings(upload_ms=subtask % 500))
        for subtask in range(MANY)
    )
    checkpoint = CheckpointInFlight(epoch=Epoch(1), attempt=1, started_ms=0)
    cut = EpochCut(batches=(), watermark=0)
    note = summarize(Recording(checkpoint=checkpoint, acks=acks, cut=cut), Generation(1))
    assert note.new_bytes == MANY
    assert len(note.subtasks) == SUBTASKS_NOTED_MAX
    noted = [subtask.subtask for subtask in note.subtasks]
    assert noted == [*range(450, 500), *range(950, 1_000)]


# ---- the cost of one, in a whole step of the rules -------------------------------------------


class Collection:
    """A checkpoint with many subtasks whose acknowledgements are on their way."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        facts = JobFacts(
            job=JobId("j"), limits=Limits(), parallelism=parallelism, generation=Generation(1)
        )
        running = begin_generation(
            facts,
            needs=NEEDS,
            parallelism=parallelism,
            lineage=Lineage(),
            unmarked=None,
            now_ms=NOW_MS,
        )
        begun = step(Running(facts=facts, running=running), CheckpointRequested(), NOW_MS).next
        assert isinstance(begun, Running)
        self.state = begun

    def take(self, operator: OperatorId, subtask: int) -> None:
        message = SubtaskAcked(
            generation=Generation(1), epoch=Epoch(1), attempt=1, ack=ack(operator, subtask)
        )
        after = step(self.state, message, NOW_MS).next
        assert isinstance(after, Running)
        self.state = after

    def take_all_between(self) -> None:
        for subtask in range(1, self.parallelism - 1):
            self.take(WINDOW, subtask)
            self.take(SINK, subtask)

    @property
    def missing(self) -> int:
        phase = self.state.running.coordinator.phase
        assert isinstance(phase, Collecting)
        return len(phase.acks.missing())


def calls(action: Callable[[], None]) -> int:
    """Return how many functions the action calls, those written in C included."""
    count = 0

    def tally(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tally)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def peak_bytes(action: Callable[[], None]) -> int:
    """Return the most memory of Python objects that the action held at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_is_owed_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = acknowledgements.subtasks_owed

    def counted(kind: str, parallelism: int) -> int:
        asked.append(kind)
        return real(kind, parallelism)

    monkeypatch.setattr(acknowledgements, "subtasks_owed", counted)
    collection = Collection(MANY)
    collection.take_all_between()
    assert asked == [need.role for need in NEEDS]
    assert collection.missing == 5


def costs(collection: Collection, subtask: int) -> tuple[int, int]:
    """Return what it takes to acknowledge this subtask of two operators: calls, bytes."""
    return (
        calls(lambda: collection.take(WINDOW, subtask)),
        peak_bytes(lambda: collection.take(SINK, subtask)),
    )


def test_an_acknowledgement_costs_the_same_however_many_there_are() -> None:
    few, many = Collection(FEW), Collection(MANY)
    for collection in (few, many):
        # Whatever is worked out once, such as the schemas of messages, is not counted.
        collection.take(SOURCE, 0)
    few_calls, few_bytes = costs(few, 0)
    first_calls, first_bytes = costs(many, 0)
    many.take_all_between()
    last_calls, last_bytes = costs(many, MANY - 1)
    assert (first_calls, last_calls) == (few_calls, few_calls)
    # A copy of the two thousand that are owed, or have come, would take eight bytes for each.
    assert max(first_bytes, last_bytes) < few_bytes + 4_000
