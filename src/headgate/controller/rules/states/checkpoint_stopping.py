"""A person asked for a stop that loses nothing: final checkpoint, publish, then stop."""

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
from headgate.controller.rules.generation import RunningGeneration
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved
from headgate.controller.rules.shutdown import (
    Shutdown,
    ShutdownStep,
    advance_shutdown,
    begin_final_checkpoint,
)
from headgate.controller.rules.states import restarting, stopped, stopping
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.stopped import Stopped
    from headgate.controller.rules.states.stopping import Stopping


@model
class CheckpointStopping:
    kind: Literal["checkpoint_stopping"] = "checkpoint_stopping"
    facts: JobFacts
    shutdown: Shutdown


def enter_checkpoint_stopping(
    facts: JobFacts, running: RunningGeneration, now_ms: int
) -> Step[CheckpointStopping]:
    # The wish is kept in the facts: a failure on the way leads back here, not into running.
    facts = replace(moved(facts, now_ms), stop_with_checkpoint=True)
    begun = begin_final_checkpoint(facts, running, now_ms)
    return Step(
        CheckpointStopping(facts=begun.facts, shutdown=begun.shutdown),
        begun.actions,
        reason="stop with a final checkpoint",
        notes=begun.notes,
    )


def take_over_shutdown(
    facts: JobFacts, shutdown: Shutdown, now_ms: int
) -> Step[CheckpointStopping]:
    """Go on with a shutdown that another state had begun; only its end is a different one."""
    return Step(
        CheckpointStopping(
            facts=replace(facts, stop_with_checkpoint=True, entered_ms=now_ms), shutdown=shutdown
        ),
        reason="stop with a final checkpoint",
    )


def step_checkpoint_stopping(
    state: CheckpointStopping, event: Event, now_ms: int
) -> Step[CheckpointStopping | Stopping | Stopped | Restarting | Recovering | Failing]:
    facts, shutdown = state.facts, state.shutdown
    match event:
        case StopRequested(mode="checkpoint"):
            return Step(state)
        case StopRequested(mode="graceful") if shutdown.phase != "checkpoint":
            return Step(state)
        case StopRequested(mode=mode):
            return stopping.enter_stopping(facts, shutdown.running, mode, now_ms)
        case RestartRequested(mode="safe"):
            return restarting.take_over_shutdown(facts, shutdown, now_ms)
        case RestartRequested(mode=mode):
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
        case TakenUp() if shutdown.phase == "checkpoint":
            return failure.lost_with_controller(facts, now_ms)
        case TakenUp():
            return stopping.enter_stopping_by_kill(facts, now_ms, reason="taken up again")
        case Tick() | CheckpointCommand() | ActionResult() | WorkerEvent():
            return _after(advance_shutdown(facts, shutdown, event, now_ms), now_ms)
        case _:
            assert_never(event)


def _after(
    step: ShutdownStep, now_ms: int
) -> Step[CheckpointStopping | Stopped | Recovering | Failing]:
    if step.failure is not None:
        broken = failure.recover_or_fail(step.facts, step.failure, now_ms)
        return replace(broken, notes=(*step.notes, *broken.notes))
    if step.done:
        return stopped.enter_stopped(
            step.facts, now_ms, reason="final checkpoint published, worker ended"
        )
    return Step(
        CheckpointStopping(facts=step.facts, shutdown=step.shutdown), step.actions, notes=step.notes
    )
