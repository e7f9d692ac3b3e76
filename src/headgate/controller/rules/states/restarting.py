"""The job is started anew: safe (final checkpoint first), forced, or ignoring its state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules import failure
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
from headgate.controller.rules.job_facts import JobFacts, RestartMode
from headgate.controller.rules.outcome import Step, moved
from headgate.controller.rules.shutdown import (
    Shutdown,
    ShutdownStep,
    advance_shutdown,
    begin_final_checkpoint,
    kill_workers,
)
from headgate.controller.rules.states import checkpoint_stopping, compiling, stopping
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.checkpoint_stopping import CheckpointStopping
    from headgate.controller.rules.states.compiling import Compiling
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.stopping import Stopping


@model
class Restarting:
    kind: Literal["restarting"] = "restarting"
    facts: JobFacts
    shutdown: Shutdown


def enter_restarting(
    facts: JobFacts, running: RunningGeneration, mode: RestartMode, now_ms: int
) -> Step[Restarting]:
    if mode != "safe":
        killed = enter_restarting_by_kill(facts, mode, now_ms)
        return replace(killed, notes=unfulfilled(running, "the job was restarted"))
    begun = begin_final_checkpoint(_renewed(moved(facts, now_ms)), running, now_ms)
    return _step(begun, reason="restart asked for: safe")


def enter_restarting_by_kill(facts: JobFacts, mode: RestartMode, now_ms: int) -> Step[Restarting]:
    renewed = _renewed(moved(facts, now_ms))
    return _step(kill_workers(renewed, now_ms), reason=f"restart asked for: {mode}")


def take_over_shutdown(facts: JobFacts, shutdown: Shutdown, now_ms: int) -> Step[Restarting]:
    """Go on with a shutdown that another state had begun; only its end is a different one."""
    renewed = replace(_renewed(facts), entered_ms=now_ms)
    return Step(Restarting(facts=renewed, shutdown=shutdown), reason="restart asked for: safe")


def _renewed(facts: JobFacts) -> JobFacts:
    """A person starts the job anew: earlier failures and an earlier stop count no more."""
    return replace(
        facts,
        stop_with_checkpoint=False,
        restarts_used=0,
        recovery=None,
    )


def _step(step: ShutdownStep, *, reason: str = "") -> Step[Restarting]:
    state = Restarting(facts=step.facts, shutdown=step.shutdown)
    return Step(state, step.actions, reason=reason, notes=step.notes)


def step_restarting(
    state: Restarting, event: Event, now_ms: int
) -> Step[Restarting | Compiling | CheckpointStopping | Stopping | Recovering | Failing]:
    facts, shutdown = state.facts, state.shutdown
    match event:
        case StopRequested(mode="checkpoint"):
            return checkpoint_stopping.take_over_shutdown(facts, shutdown, now_ms)
        case StopRequested(mode=mode):
            return stopping.enter_stopping(facts, shutdown.running, mode, now_ms)
        case RestartRequested(mode="forced" | "ignore_state" as mode):
            return enter_restarting_by_kill(facts, mode, now_ms)
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
        case TakenUp():
            return failure.lost_with_controller(facts, now_ms)
        case Tick() | RestartRequested() | CheckpointCommand() | ActionResult() | WorkerEvent():
            # A restart that loses nothing is what is under way already.
            return _after(advance_shutdown(facts, shutdown, event, now_ms), now_ms)
        case _:
            assert_never(event)


def _after(step: ShutdownStep, now_ms: int) -> Step[Restarting | Compiling | Recovering | Failing]:
    if step.failure is not None:
        broken = failure.recover_or_fail(step.facts, step.failure, now_ms)
        return replace(broken, notes=(*step.notes, *broken.notes))
    if step.done:
        return compiling.enter_compiling(
            step.facts, None, now_ms, reason="worker ended, starting anew"
        )
    return _step(step)
