"""The pipeline runs: its worker is watched, its checkpoints are taken."""

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
from headgate.controller.rules.generation import RunningGeneration, advance_generation
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved
from headgate.controller.rules.states import (
    checkpoint_stopping,
    finishing,
    rescaling,
    restarting,
    stopping,
)
from headgate.core.messages import SourcesFinished, WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.checkpoint_stopping import CheckpointStopping
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.finishing import Finishing
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.rescaling import Rescaling
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.stopping import Stopping


@model
class Running:
    kind: Literal["running"] = "running"
    facts: JobFacts
    running: RunningGeneration


def enter_running(facts: JobFacts, running: RunningGeneration, now_ms: int) -> Step[Running]:
    begun = advance_generation(moved(facts, now_ms), running, Tick(), now_ms)
    return Step(
        Running(facts=begun.facts, running=begun.running),
        begun.actions,
        reason=f"worker ready on node {facts.node}" if facts.node else "worker ready",
        notes=begun.notes,
    )


def step_running(
    state: Running, event: Event, now_ms: int
) -> Step[
    Running
    | CheckpointStopping
    | Stopping
    | Finishing
    | Rescaling
    | Restarting
    | Recovering
    | Failing
]:
    facts, running = state.facts, state.running
    match event:
        case StopRequested(mode="checkpoint"):
            return checkpoint_stopping.enter_checkpoint_stopping(facts, running, now_ms)
        case StopRequested(mode=mode):
            return stopping.enter_stopping(facts, running, mode, now_ms)
        case RescaleRequested(parallelism=parallelism):
            if parallelism == running.parallelism:
                return Step(replace(state, facts=replace(facts, parallelism=parallelism)))
            return rescaling.enter_rescaling(facts, running, parallelism, now_ms)
        case RestartRequested(mode=mode):
            return restarting.enter_restarting(facts, running, mode, now_ms)
        case SourcesFinished():
            return finishing.enter_finishing(facts, running, now_ms)
        case TakenUp():
            return failure.lost_with_controller(facts, now_ms)
        case Tick() | CheckpointCommand() | ActionResult() | WorkerEvent():
            return _advance(state, event, now_ms)
        case _:
            assert_never(event)


def _advance(state: Running, event: Event, now_ms: int) -> Step[Running | Recovering | Failing]:
    after = advance_generation(state.facts, state.running, event, now_ms)
    if after.failure is not None:
        broken = failure.recover_or_fail(after.facts, after.failure, now_ms)
        return replace(broken, notes=(*after.notes, *broken.notes))
    return Step(Running(facts=after.facts, running=after.running), after.actions, notes=after.notes)
