"""The job gave up, and says why. Only a person's restart leads out of here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules.actions import ReleaseSlots
from headgate.controller.rules.events import (
    ActionResult,
    CheckpointCommand,
    Event,
    RescaleRequested,
    RestartRequested,
    StopRequested,
    TakenUp,
    Tick,
)
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.states import restarting
from headgate.core.errors import ErrorInfo
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.restarting import Restarting


@model
class Failed:
    kind: Literal["failed"] = "failed"
    facts: JobFacts
    error: ErrorInfo


def enter_failed(facts: JobFacts, error: ErrorInfo, now_ms: int) -> Step[Failed]:
    facts = replace(moved(facts, now_ms), recovery=None)
    return Step(Failed(facts=facts, error=error), (ReleaseSlots(),), reason=error.message)


def step_failed(state: Failed, event: Event, now_ms: int) -> Step[Failed | Restarting]:
    match event:
        case RestartRequested(mode=mode):
            # Whoever restarts a job that was given up to another controller wants it here.
            facts = replace(state.facts, takes_over=state.error.code == "superseded")
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case RescaleRequested(parallelism=parallelism):
            # It takes effect when the job is started again.
            return Step(replace(state, facts=replace(state.facts, parallelism=parallelism)))
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, state.facts))
        case Tick() | TakenUp() | StopRequested() | ActionResult() | WorkerEvent():
            # It has ended already; what a worker or an action reports now is of the past.
            return Step(state)
        case _:
            assert_never(event)
