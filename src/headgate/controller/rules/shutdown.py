"""How a generation is brought to its end on purpose: final checkpoint, stop, kill.

Every state that ends a worker (stopping, finishing, rescaling, restarting) goes through these
phases and differs only in where it goes afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from headgate.controller.checkpoints import coordinator as rules
from headgate.controller.checkpoints.phases import Idle
from headgate.controller.rules.actions import Action, KillWorkers, SendToWorker
from headgate.controller.rules.events import ActionFailed, Event, Tick, WorkerExited, WorkersKilled
from headgate.controller.rules.generation import (
    RunningGeneration,
    advance_generation,
    generation_deadline,
    unfulfilled,
    view_of,
)
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.notes import Note
from headgate.core.errors import ErrorInfo
from headgate.core.messages import Stop, TaskFailed, WorkerStopped
from headgate.core.model import model

ShutdownPhase = Literal["checkpoint", "worker", "kill"]


@model
class Shutdown:
    """checkpoint: the final one is under way; worker: told to stop; kill: it, and all older."""

    phase: ShutdownPhase
    # When the phase is given up; the final checkpoint has deadlines of its own.
    until_ms: int = 0
    # None if no worker was running.
    running: RunningGeneration | None = None


@model
class ShutdownStep:
    facts: JobFacts
    shutdown: Shutdown
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    # Only while the final checkpoint is under way: after it nothing can be lost any more.
    failure: ErrorInfo | None = None
    done: bool = False


def begin_final_checkpoint(
    facts: JobFacts, running: RunningGeneration, now_ms: int
) -> ShutdownStep:
    """Begin with the final checkpoint; one already in flight is completed before it."""
    asked = replace(running, coordinator=rules.ask_final(running.coordinator))
    shutdown = Shutdown(phase="checkpoint", running=asked)
    return advance_shutdown(facts, shutdown, Tick(), now_ms)


def tell_worker_to_stop(
    facts: JobFacts, running: RunningGeneration, now_ms: int, *, grace_ms: int
) -> ShutdownStep:
    """Tell the worker to stop, without a checkpoint; after `grace_ms` it is killed."""
    stop = Stop(generation=running.generation)
    return ShutdownStep(
        facts=facts,
        shutdown=Shutdown(phase="worker", until_ms=now_ms + grace_ms, running=running),
        actions=(SendToWorker(generation=running.generation, message=stop),),
    )


def kill_workers(facts: JobFacts, now_ms: int) -> ShutdownStep:
    """Kill at once whatever may be alive. `facts` are those of the state being entered."""
    kill = KillWorkers(turn=facts.turn, generation=facts.generation)
    until_ms = now_ms + facts.limits.kill_timeout_ms
    return ShutdownStep(
        facts=facts, shutdown=Shutdown(phase="kill", until_ms=until_ms), actions=(kill,)
    )


def shutdown_deadline(facts: JobFacts, shutdown: Shutdown) -> int:
    if shutdown.phase == "checkpoint" and shutdown.running is not None:
        return generation_deadline(facts, shutdown.running)
    return shutdown.until_ms


def advance_shutdown(
    facts: JobFacts, shutdown: Shutdown, event: Event, now_ms: int
) -> ShutdownStep:
    """Apply an event to the generation that is ending."""
    if shutdown.phase == "checkpoint" and shutdown.running is not None:
        return _advance_checkpoint(facts, shutdown, shutdown.running, event, now_ms)
    if shutdown.phase == "worker":
        if now_ms >= shutdown.until_ms or isinstance(
            event, WorkerStopped | WorkerExited | TaskFailed
        ):
            # The process group is killed even if the worker says that it ended: its JVM may not.
            return kill_workers(facts, now_ms)
        return ShutdownStep(facts=facts, shutdown=shutdown)
    # A worker that cannot be killed is fenced by the next generation; waiting would help nobody.
    done = now_ms >= shutdown.until_ms or isinstance(event, WorkersKilled | ActionFailed)
    return ShutdownStep(facts=facts, shutdown=shutdown, done=done)


def _advance_checkpoint(
    facts: JobFacts, shutdown: Shutdown, running: RunningGeneration, event: Event, now_ms: int
) -> ShutdownStep:
    advanced = advance_generation(facts, running, event, now_ms)
    step = ShutdownStep(
        facts=advanced.facts,
        shutdown=replace(shutdown, running=advanced.running),
        actions=advanced.actions,
        notes=advanced.notes,
        failure=advanced.failure,
    )
    coordinator = advanced.running.coordinator
    if step.failure is not None:
        return step
    if not (coordinator.final_done and isinstance(coordinator.phase, Idle)):
        return step
    # What the job leaves behind is cleaned up while the worker ends; nobody waits for it.
    facts, running = advanced.facts, advanced.running
    last: tuple[Action, ...] = ()
    if facts.cleaning_since_ms is None:
        facts = replace(facts, cleaning_since_ms=now_ms)
        last = (rules.cleanup(view_of(facts, running)),)
    stopping = tell_worker_to_stop(facts, running, now_ms, grace_ms=facts.limits.stop_grace_ms)
    notes = (*step.notes, *unfulfilled(running, "the job was stopped"))
    return replace(stopping, actions=(*step.actions, *stopping.actions, *last), notes=notes)
