"""The worker is being ended without a final checkpoint: graceful, immediate or by force."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules.events import (
    CheckpointRequested,
    CheckpointResult,
    CleanupResult,
    Event,
    RescaleRequested,
    RestartRequested,
    SavepointRequested,
    StopRequested,
    TakenUp,
    Tick,
    TurnResult,
    WorkerDisconnected,
    WorkerExited,
)
from headgate.controller.rules.generation import Live, unfulfilled
from headgate.controller.rules.job_facts import JobFacts, StopMode
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.shutdown import (
    Drain,
    DrainStep,
    advance_drain,
    drain_kill,
    drain_worker,
)
from headgate.controller.rules.states import restarting, stopped
from headgate.core.messages import (
    EpochCutDone,
    Heartbeat,
    Register,
    Restored,
    SinkPublished,
    SourcesFinished,
    SubtaskAcked,
    TaskFailed,
    WorkerStopped,
)
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.stopped import Stopped


@model
class Stopping:
    kind: Literal["stopping"] = "stopping"
    facts: JobFacts
    drain: Drain


def enter_stopping(
    facts: JobFacts, live: Live | None, mode: StopMode, now_ms: int
) -> Step[Stopping]:
    """Stop as asked. Where no worker runs, or by force, there is nothing to be waited for."""
    reason = f"stop asked for: {mode}"
    if live is None or mode == "force":
        step = enter_stopping_by_kill(facts, now_ms, reason=reason)
    else:
        graceful = mode == "graceful"
        begun = drain_worker(moved(facts, now_ms), live, now_ms, graceful=graceful)
        step = _step(begun, reason=reason)
    lost = () if live is None else unfulfilled(live, "the job was stopped")
    return replace(step, notes=(*step.notes, *lost))


def enter_stopping_by_kill(facts: JobFacts, now_ms: int, *, reason: str) -> Step[Stopping]:
    return _step(drain_kill(moved(facts, now_ms), now_ms), reason=reason)


def _step(step: DrainStep, *, reason: str = "") -> Step[Stopping]:
    return Step(
        Stopping(facts=step.facts, drain=step.drain), step.actions, reason=reason, notes=step.notes
    )


def step_stopping(
    state: Stopping, event: Event, now_ms: int
) -> Step[Stopping | Stopped | Restarting]:
    facts, drain = state.facts, state.drain
    match event:
        case StopRequested(mode="immediate" | "force") if drain.phase == "worker":
            return _step(drain_kill(facts, now_ms))
        case RestartRequested(mode="ignore_state" as mode):
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case RestartRequested():
            return restarting.take_over_drain(facts, drain, now_ms)
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
        case CheckpointRequested() | SavepointRequested():
            return Step(state, notes=refusal(event, state.kind, facts))
        case TakenUp():
            return enter_stopping_by_kill(facts, now_ms, reason="taken up again")
        case (
            Tick()
            | StopRequested()
            | TurnResult()
            | CheckpointResult()
            | CleanupResult()
            | Register()
            | Restored()
            | Heartbeat()
            | SubtaskAcked()
            | EpochCutDone()
            | SinkPublished()
            | SourcesFinished()
            | TaskFailed()
            | WorkerStopped()
            | WorkerExited()
            | WorkerDisconnected()
        ):
            step = advance_drain(facts, drain, event, now_ms)
            if step.done:
                return stopped.enter_stopped(step.facts, now_ms, reason="worker ended")
            return _step(step)
        case _:
            assert_never(event)
