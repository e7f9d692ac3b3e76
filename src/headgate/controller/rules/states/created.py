"""The job exists; nothing has been tried yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

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
from headgate.controller.rules.outcome import Step, refusal
from headgate.controller.rules.states import compiling, stopped
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.compiling import Compiling
    from headgate.controller.rules.states.stopped import Stopped


@model
class Created:
    kind: Literal["created"] = "created"
    facts: JobFacts


def step_created(state: Created, event: Event, now_ms: int) -> Step[Created | Compiling | Stopped]:
    match event:
        case TakenUp():
            return compiling.enter_compiling(state.facts, None, now_ms, reason="started")
        case StopRequested():
            return stopped.enter_stopped(state.facts, now_ms, reason="stopped before it started")
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(state.facts, parallelism=parallelism)))
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, state.facts))
        case Tick() | RestartRequested() | ActionResult() | WorkerEvent():
            # Nothing has been asked of anybody yet, and it will be started anyway.
            return Step(state)
        case _:
            assert_never(event)
