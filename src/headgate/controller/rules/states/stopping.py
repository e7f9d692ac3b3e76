"""The worker is being ended without a final checkpoint: graceful, immediate or by force."""

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
from headgate.controller.rules.generation import RunningGeneration, unfulfilled
from headgate.controller.rules.job_facts import JobFacts, StopMode
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.shutdown import (
    Shutdown,
    ShutdownStep,
    advance_shutdown,
    kill_workers,
    tell_worker_to_stop,
)
from headgate.controller.rules.states import restarting, stopped
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.stopped import Stopped


@model
class Stopping:
    kind: Literal["stopping"] = "stopping"
    facts: JobFacts
    shutdown: Shutdown


def enter_stopping(
    facts: JobFacts, running: RunningGeneration | None, mode: StopMode, now_ms: int
) -> Step[Stopping]:
    """Stop as asked. If no worker runs, or by force, there is nothing to be waited for."""
    reason = f"stop asked for: {mode}"
    if running is None or mode == "force":
        step = enter_stopping_by_kill(facts, now_ms, reason=reason)
    else:
        limits = facts.limits
        grace_ms = limits.stop_grace_ms if mode == "graceful" else limits.stop_immediate_ms
        begun = tell_worker_to_stop(moved(facts, now_ms), running, now_ms, grace_ms=grace_ms)
        step = _step(begun, reason=reason)
    lost = () if running is None else unfulfilled(running, "the job was stopped")
    return replace(step, notes=(*step.notes, *lost))


def enter_stopping_by_kill(facts: JobFacts, now_ms: int, *, reason: str) -> Step[Stopping]:
    return _step(kill_workers(moved(facts, now_ms), now_ms), reason=reason)


def _step(step: ShutdownStep, *, reason: str = "") -> Step[Stopping]:
    return Step(
        Stopping(facts=step.facts, shutdown=step.shutdown),
        step.actions,
        reason=reason,
        notes=step.notes,
    )


def step_stopping(
    state: Stopping, event: Event, now_ms: int
) -> Step[Stopping | Stopped | Restarting]:
    facts, shutdown = state.facts, state.shutdown
    match event:
        case StopRequested(mode="immediate" | "force") if shutdown.phase == "worker":
            return _step(kill_workers(facts, now_ms))
        case RestartRequested(mode="ignore_state" as mode):
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case RestartRequested():
            return restarting.take_over_shutdown(facts, shutdown, now_ms)
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, facts))
        case TakenUp():
            return enter_stopping_by_kill(facts, now_ms, reason="taken up again")
        case Tick() | StopRequested() | ActionResult() | WorkerEvent():
            # A stop that is no more urgent than this one changes nothing.
            step = advance_shutdown(facts, shutdown, event, now_ms)
            if step.done:
                return stopped.enter_stopped(step.facts, now_ms, reason="worker ended")
            return _step(step)
        case _:
            assert_never(event)
