"""The job cannot be helped: what is left of it is ended before it counts as failed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules.actions import KillWorkers
from headgate.controller.rules.events import (
    ActionFailed,
    ActionResult,
    CheckpointCommand,
    Event,
    RescaleRequested,
    RestartRequested,
    StopRequested,
    TakenUp,
    Tick,
    WorkersKilled,
)
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.states import failed, restarting
from headgate.core.errors import ErrorInfo
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.failed import Failed
    from headgate.controller.rules.states.restarting import Restarting


@model
class Failing:
    kind: Literal["failing"] = "failing"
    facts: JobFacts
    error: ErrorInfo


def enter_failing(facts: JobFacts, error: ErrorInfo, now_ms: int) -> Step[Failing]:
    facts = replace(moved(facts, now_ms), last_error=error)
    kill = KillWorkers(turn=facts.turn, generation=facts.generation)
    return Step(Failing(facts=facts, error=error), (kill,), reason=error.message)


def failing_deadline(state: Failing) -> int:
    return state.facts.entered_ms + state.facts.limits.kill_timeout_ms


def step_failing(state: Failing, event: Event, now_ms: int) -> Step[Failing | Failed | Restarting]:
    facts = state.facts
    match event:
        case WorkersKilled() | ActionFailed():
            # A worker that cannot be killed is fenced by the next generation, if there is one.
            return failed.enter_failed(facts, state.error, now_ms)
        case Tick() if now_ms >= failing_deadline(state):
            return failed.enter_failed(facts, state.error, now_ms)
        case RestartRequested(mode=mode):
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case TakenUp():
            again = moved(facts, now_ms)
            kill = KillWorkers(turn=again.turn, generation=again.generation)
            return Step(replace(state, facts=again), (kill,))
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, facts))
        case Tick() | StopRequested() | ActionResult() | WorkerEvent():
            # It is ending already; the worker is being killed, whatever it says.
            return Step(state)
        case _:
            assert_never(event)
