"""The parallelism changes: final checkpoint at the old one, then a generation at the new one."""

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
from headgate.controller.rules.job_facts import JobFacts, OperatorNeed
from headgate.controller.rules.outcome import Step, moved
from headgate.controller.rules.shutdown import (
    Shutdown,
    ShutdownStep,
    advance_shutdown,
    begin_final_checkpoint,
    kill_workers,
)
from headgate.controller.rules.states import checkpoint_stopping, restarting, scheduling, stopping
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.checkpoint_stopping import CheckpointStopping
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.scheduling import Scheduling
    from headgate.controller.rules.states.stopping import Stopping


@model
class Rescaling:
    """`facts.parallelism` is already the new one, so a failure on the way rescales as well."""

    kind: Literal["rescaling"] = "rescaling"
    facts: JobFacts
    needs: tuple[OperatorNeed, ...]
    shutdown: Shutdown


def enter_rescaling(
    facts: JobFacts, running: RunningGeneration, parallelism: int, now_ms: int
) -> Step[Rescaling]:
    facts = replace(moved(facts, now_ms), parallelism=parallelism)
    begun = begin_final_checkpoint(facts, running, now_ms)
    return _step(running.needs, begun, reason=f"rescale to {parallelism}")


def enter_rescaling_by_kill(
    facts: JobFacts, needs: tuple[OperatorNeed, ...], parallelism: int, now_ms: int
) -> Step[Rescaling]:
    """Rescale a generation that has not begun to read: it has nothing to checkpoint."""
    facts = replace(moved(facts, now_ms), parallelism=parallelism)
    return _step(needs, kill_workers(facts, now_ms), reason=f"rescale to {parallelism}")


def _step(
    needs: tuple[OperatorNeed, ...], step: ShutdownStep, *, reason: str = ""
) -> Step[Rescaling]:
    state = Rescaling(facts=step.facts, needs=needs, shutdown=step.shutdown)
    return Step(state, step.actions, reason=reason, notes=step.notes)


def step_rescaling(
    state: Rescaling, event: Event, now_ms: int
) -> Step[
    Rescaling | Scheduling | CheckpointStopping | Stopping | Restarting | Recovering | Failing
]:
    facts, shutdown = state.facts, state.shutdown
    match event:
        case StopRequested(mode="checkpoint"):
            return checkpoint_stopping.take_over_shutdown(facts, shutdown, now_ms)
        case StopRequested(mode=mode):
            return stopping.enter_stopping(facts, shutdown.running, mode, now_ms)
        case RestartRequested(mode="forced" | "ignore_state" as mode):
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case RescaleRequested(parallelism=parallelism):
            return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
        case TakenUp():
            return failure.lost_with_controller(facts, now_ms)
        case Tick() | RestartRequested() | CheckpointCommand() | ActionResult() | WorkerEvent():
            # A restart that loses nothing is what is under way already.
            return _after(state, advance_shutdown(facts, shutdown, event, now_ms), now_ms)
        case _:
            assert_never(event)


def _after(
    state: Rescaling, step: ShutdownStep, now_ms: int
) -> Step[Rescaling | Scheduling | Recovering | Failing]:
    if step.failure is not None:
        broken = failure.recover_or_fail(step.facts, step.failure, now_ms)
        return replace(broken, notes=(*step.notes, *broken.notes))
    if step.done:
        facts = replace(step.facts, recovery=None)
        entered = scheduling.enter_scheduling(facts, state.needs, None, now_ms)
        return replace(entered, reason="worker of the old parallelism ended")
    return _step(state.needs, step)
