"""The pipeline's text is turned into its graph. No worker is alive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules import failure
from headgate.controller.rules.actions import Compile
from headgate.controller.rules.events import (
    ActionFailed,
    ActionResult,
    CheckpointCommand,
    Compiled,
    Event,
    LoadPlanned,
    RescaleRequested,
    RestartRequested,
    StopRequested,
    TakenUp,
    Tick,
)
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.states import scheduling, stopped
from headgate.core.errors import ErrorInfo
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.scheduling import Scheduling
    from headgate.controller.rules.states.stopped import Stopped


@model
class Compiling:
    kind: Literal["compiling"] = "compiling"
    facts: JobFacts
    # What a recovery has prepared; None = the load is prepared while scheduling.
    prepared: LoadPlanned | None = None


def enter_compiling(
    facts: JobFacts, prepared: LoadPlanned | None, now_ms: int, *, reason: str
) -> Step[Compiling]:
    facts = moved(facts, now_ms)
    return Step(
        Compiling(facts=facts, prepared=prepared), (Compile(turn=facts.turn),), reason=reason
    )


def compiling_deadline(state: Compiling) -> int:
    return state.facts.entered_ms + state.facts.limits.action_timeout_ms


def step_compiling(
    state: Compiling, event: Event, now_ms: int
) -> Step[Compiling | Scheduling | Stopped | Recovering | Failing]:
    facts = state.facts
    match event:
        case Compiled(needs=needs, fingerprint=fingerprint):
            prepared = state.prepared if _fits(state, fingerprint) else None
            return scheduling.enter_scheduling(facts, needs, prepared, now_ms)
        case ActionFailed(error=error):
            return failure.recover_or_fail(facts, error, now_ms)
        case TakenUp():
            return enter_compiling(facts, None, now_ms, reason="taken up again")
        case StopRequested(mode="checkpoint"):
            # Publishes of the last checkpoint may be missing: the load tells, so it goes on.
            return Step(replace(state, facts=replace(facts, stop_with_checkpoint=True)))
        case StopRequested():
            return stopped.enter_stopped(facts, now_ms, reason="stopped while compiling")
        case RescaleRequested(parallelism=parallelism):
            # What was prepared is for another parallelism.
            facts = replace(facts, parallelism=parallelism)
            return Step(Compiling(facts=facts, prepared=None))
        case RestartRequested(mode=mode):
            # It is starting already; only what it starts from can change.
            return Step(replace(state, prepared=None if mode == "ignore_state" else state.prepared))
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, facts))
        case Tick() if now_ms >= compiling_deadline(state):
            slow = ErrorInfo(message="compiling took too long", code="action_timeout")
            return failure.recover_or_fail(facts, slow, now_ms)
        case Tick() | ActionResult() | WorkerEvent():
            # No worker is alive, and compiling is the only action asked for.
            return Step(state)
        case _:
            assert_never(event)


def _fits(state: Compiling, fingerprint: str) -> bool:
    """Whether what was prepared is still what is needed: the text or the settings may be new."""
    prepared = state.prepared
    return (
        prepared is not None
        and prepared.fingerprint == fingerprint
        and prepared.plan.parallelism == state.facts.parallelism
    )
