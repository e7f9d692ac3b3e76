"""What a rule returns: the next state, what to do, and what to remember."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from headgate.controller.rules.actions import Action
from headgate.controller.rules.events import Command, SavepointRequested
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.notes import Note, SavepointNote

S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class Step(Generic[S_co]):
    """The type argument names every state that may come next; the state diagram reads it."""

    next: S_co
    actions: tuple[Action, ...] = ()
    # Why the state changed, for the history; empty if it did not.
    reason: str = ""
    notes: tuple[Note, ...] = ()


def moved(facts: JobFacts, now_ms: int) -> JobFacts:
    """Return the facts of a job that enters another state: earlier actions are out of date."""
    return replace(facts, turn=facts.turn + 1, entered_ms=now_ms)


def refusal(command: Command, state: str, facts: JobFacts) -> tuple[Note, ...]:
    """Return what to remember of a command that cannot be carried out in this state."""
    if isinstance(command, SavepointRequested):
        failure = f"the job is {state}: a savepoint needs a running job"
        return (
            SavepointNote(
                name=command.name,
                generation=facts.generation,
                epoch=facts.last_epoch,
                failure=failure,
            ),
        )
    return ()
