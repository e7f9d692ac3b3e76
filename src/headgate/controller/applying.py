"""An event is applied to a job: step, then persist. Without threads, clock or storage.

The runner and the simulation both use it; they differ in who performs the actions, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.controller.rules.actions import Action
from headgate.controller.rules.events import Event
from headgate.controller.rules.notes import Note
from headgate.controller.rules.outcome import Step
from headgate.controller.rules.state import JobState, stored_form
from headgate.controller.rules.step import step


@dataclass(frozen=True)
class Change:
    """What must be durable before the actions of a step may be performed."""

    before: JobState
    after: JobState
    # `after`, as it is stored.
    stored: JobState
    reason: str
    notes: tuple[Note, ...]
    at_ms: int

    @property
    def moved(self) -> bool:
        """Whether the job entered another state."""
        return self.before.kind != self.after.kind


@dataclass(frozen=True)
class Applied:
    """The job after the event, and what is to be done; `change` is what was persisted."""

    state: JobState
    actions: tuple[Action, ...]
    change: Change | None


def apply_event(
    state: JobState, event: Event, now_ms: int, persist: Callable[[Change], None]
) -> Applied:
    """Decide, persist if something worth keeping changed, and return what is to be done.

    `persist` raises if the change could not be made durable: then nothing has happened.
    """
    decided: Step[JobState] = step(state, event, now_ms)
    change = Change(
        before=state,
        after=decided.next,
        stored=stored_form(decided.next),
        reason=decided.reason,
        notes=decided.notes,
        at_ms=now_ms,
    )
    if decided.notes or change.moved or change.stored != stored_form(state):
        persist(change)
        return Applied(decided.next, decided.actions, change)
    return Applied(decided.next, decided.actions, None)
