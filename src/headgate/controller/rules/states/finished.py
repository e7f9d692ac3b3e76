"""Every source has ended and everything is published. Only a restart leads out of here."""

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
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.restarting import Restarting


@model
class Finished:
    kind: Literal["finished"] = "finished"
    facts: JobFacts


def enter_finished(facts: JobFacts, now_ms: int) -> Step[Finished]:
    facts = replace(moved(facts, now_ms), stop_with_checkpoint=False, recovery=None)
    return Step(Finished(facts=facts), (ReleaseSlots(),), reason="everything is published")


def step_finished(state: Finished, event: Event, now_ms: int) -> Step[Finished | Restarting]:
    match event:
        case RestartRequested(mode=mode):
            return restarting.enter_restarting_by_kill(state.facts, mode, now_ms)
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
