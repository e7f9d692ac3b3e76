"""Every source has ended: a last checkpoint publishes everything, then the worker is ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules import failure
from headgate.controller.rules.events import (
    ActionResult,
    Command,
    Event,
    RestartRequested,
    StopRequested,
    TakenUp,
    Tick,
)
from headgate.controller.rules.generation import RunningGeneration
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved
from headgate.controller.rules.recovery_clock import work_resumed
from headgate.controller.rules.shutdown import (
    Shutdown,
    ShutdownStep,
    advance_shutdown,
    begin_final_checkpoint,
    kill_workers,
)
from headgate.controller.rules.states import finished, restarting, stopping
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.finished import Finished
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.stopping import Stopping


@model
class Finishing:
    kind: Literal["finishing"] = "finishing"
    facts: JobFacts
    shutdown: Shutdown


def enter_finishing(facts: JobFacts, running: RunningGeneration, now_ms: int) -> Step[Finishing]:
    facts, notes = work_resumed(moved(facts, now_ms), now_ms)
    heard = replace(running, last_heard_ms=now_ms)
    begun = begin_final_checkpoint(facts, heard, now_ms)
    return Step(
        Finishing(facts=begun.facts, shutdown=begun.shutdown),
        begun.actions,
        reason="every source has ended",
        notes=(*notes, *begun.notes),
    )


def step_finishing(
    state: Finishing, event: Event, now_ms: int
) -> Step[Finishing | Finished | Stopping | Restarting | Recovering | Failing]:
    facts, shutdown = state.facts, state.shutdown
    match event:
        case StopRequested(mode="immediate" | "force" as mode) if shutdown.phase == "checkpoint":
            return stopping.enter_stopping(facts, shutdown.running, mode, now_ms)
        case RestartRequested(mode="forced" | "ignore_state" as mode):
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case TakenUp() if shutdown.phase == "checkpoint":
            return failure.lost_with_controller(facts, now_ms)
        case TakenUp():
            # The final checkpoint is committed; only what is left of the worker must go.
            killing = kill_workers(moved(facts, now_ms), now_ms)
            return Step(Finishing(facts=killing.facts, shutdown=killing.shutdown), killing.actions)
        case Tick() | Command() | ActionResult() | WorkerEvent():
            # Every command that is left would end the job as well, or wants more of it.
            return _after(advance_shutdown(facts, shutdown, event, now_ms), now_ms)
        case _:
            assert_never(event)


def _after(step: ShutdownStep, now_ms: int) -> Step[Finishing | Finished | Recovering | Failing]:
    if step.failure is not None:
        broken = failure.recover_or_fail(step.facts, step.failure, now_ms)
        return replace(broken, notes=(*step.notes, *broken.notes))
    if step.done:
        return finished.enter_finished(step.facts, now_ms)
    return Step(Finishing(facts=step.facts, shutdown=step.shutdown), step.actions, notes=step.notes)
