"""Executors that come and go are noted, whatever the job is at."""

from __future__ import annotations

import pytest

from headgate.controller.applying import apply_event
from headgate.controller.rules.notes import ExecutorsNote
from headgate.controller.rules.step import step
from headgate.controller.store.history import ENTRY_KINDS, HistoryEntry, entries_of
from headgate.core.ids import Generation
from headgate.core.messages import (
    ExecutorInfo,
    ExecutorLost,
    ExecutorRefused,
    ExecutorsChanged,
    WorkerMessage,
)
from headgate.core.model import from_json, to_json
from headgate.embedded.display import note_text
from tests.unit.controller.job_under_rules import every_state

GOOD, LOST, BAD = (ExecutorInfo(id=str(n), host=f"host-{n}", cores=2) for n in range(3))


def changed(generation: Generation) -> ExecutorsChanged:
    return ExecutorsChanged(
        generation=generation,
        joined=(GOOD,),
        lost=(ExecutorLost(executor=LOST, reason="worker lost"),),
        refused=(ExecutorRefused(executor=BAD, findings=("numpy is missing: install it",)),),
        executors=1,
    )


@pytest.mark.parametrize("name", sorted(every_state()))
def test_it_is_noted_in_every_state_and_moves_no_job(name: str) -> None:
    world = every_state()[name]
    after = step(world.state, changed(world.facts.generation), world.now_ms)
    (note,) = [note for note in after.notes if isinstance(note, ExecutorsNote)]
    assert (note.joined, note.executors) == ((GOOD,), 1)
    assert after.next.kind == world.state.kind


def test_another_generations_executors_are_nobodys_concern() -> None:
    world = every_state()["running"]
    event = changed(Generation(world.facts.generation + 1))
    assert not step(world.state, event, world.now_ms).notes


def test_the_history_tells_who_came_who_went_and_why() -> None:
    world = every_state()["running"]
    event = from_json(WorkerMessage, to_json(changed(world.facts.generation)))
    saved: list[HistoryEntry] = []
    apply_event(world.state, event, world.now_ms, lambda change: saved.extend(entries_of(change)))
    (entry,) = [e for e in saved if e.kind == "executors"]
    assert entry.kind in ENTRY_KINDS
    read = from_json(HistoryEntry, to_json(entry)).executors
    text = note_text(read)
    assert text is not None
    for words in (
        "executor 0 joined on host-0 (2 cores)",
        "executor 1 on host-1 was lost: worker lost",
        "executor 2 on host-2 was sent away: numpy is missing: install it",
        "There are 1 now",
    ):
        assert words in text
