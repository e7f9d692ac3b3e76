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
    Live,
    advance_live,
    frame_of,
    live_deadline,
    unfulfilled,
)
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.notes import Note
from headgate.core.errors import ErrorInfo
from headgate.core.messages import Stop, TaskFailed, WorkerStopped
from headgate.core.model import model

DrainPhase = Literal["checkpoint", "worker", "kill"]


@model
class Drain:
    """checkpoint: the final one is under way; worker: told to stop; kill: it, and all older."""

    phase: DrainPhase
    # When the phase is given up; the final checkpoint has deadlines of its own.
    until_ms: int = 0
    # None where no worker was running.
    live: Live | None = None


@model
class DrainStep:
    facts: JobFacts
    drain: Drain
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    # Only while the final checkpoint is under way: after it nothing can be lost any more.
    failure: ErrorInfo | None = None
    done: bool = False


def drain_with_checkpoint(facts: JobFacts, live: Live, now_ms: int) -> DrainStep:
    """Begin with the final checkpoint; one already in flight is completed before it."""
    asked = replace(live, coordinator=rules.ask_final(live.coordinator))
    drain = Drain(phase="checkpoint", live=asked)
    return advance_drain(facts, drain, Tick(), now_ms)


def drain_worker(facts: JobFacts, live: Live, now_ms: int, *, graceful: bool) -> DrainStep:
    """Tell the worker to stop, without a checkpoint."""
    stop = Stop(generation=live.generation, graceful=graceful)
    limits = facts.limits
    grace_ms = limits.stop_grace_ms if graceful else limits.stop_immediate_ms
    return DrainStep(
        facts=facts,
        drain=Drain(phase="worker", until_ms=now_ms + grace_ms, live=live),
        actions=(SendToWorker(generation=live.generation, message=stop),),
    )


def drain_kill(facts: JobFacts, now_ms: int) -> DrainStep:
    """Kill at once whatever may be alive. `facts` are those of the state being entered."""
    kill = KillWorkers(turn=facts.turn, generation=facts.generation)
    until_ms = now_ms + facts.limits.kill_timeout_ms
    return DrainStep(facts=facts, drain=Drain(phase="kill", until_ms=until_ms), actions=(kill,))


def drain_deadline(facts: JobFacts, drain: Drain) -> int:
    if drain.phase == "checkpoint" and drain.live is not None:
        return live_deadline(facts, drain.live)
    return drain.until_ms


def advance_drain(facts: JobFacts, drain: Drain, event: Event, now_ms: int) -> DrainStep:
    """Apply an event to the generation that is ending."""
    if drain.phase == "checkpoint" and drain.live is not None:
        return _advance_checkpoint(facts, drain, drain.live, event, now_ms)
    if drain.phase == "worker":
        if now_ms >= drain.until_ms or isinstance(event, WorkerStopped | WorkerExited | TaskFailed):
            # The process group is killed even if the worker says that it ended: its JVM may not.
            return drain_kill(facts, now_ms)
        return DrainStep(facts=facts, drain=drain)
    # A worker that cannot be killed is fenced by the next generation; waiting would help nobody.
    done = now_ms >= drain.until_ms or isinstance(event, WorkersKilled | ActionFailed)
    return DrainStep(facts=facts, drain=drain, done=done)


def _advance_checkpoint(
    facts: JobFacts, drain: Drain, live: Live, event: Event, now_ms: int
) -> DrainStep:
    advanced = advance_live(facts, live, event, now_ms)
    step = DrainStep(
        facts=advanced.facts,
        drain=replace(drain, live=advanced.live),
        actions=advanced.actions,
        notes=advanced.notes,
        failure=advanced.failure,
    )
    coordinator = advanced.live.coordinator
    if step.failure is not None:
        return step
    if not (coordinator.final_done and isinstance(coordinator.phase, Idle)):
        return step
    # What the job leaves behind is cleaned up while the worker ends; nobody waits for it.
    facts, live = advanced.facts, advanced.live
    last: tuple[Action, ...] = ()
    if facts.cleaning_since_ms is None:
        facts = replace(facts, cleaning_since_ms=now_ms)
        last = (rules.cleanup(frame_of(facts, live)),)
    stopping = drain_worker(facts, live, now_ms, graceful=True)
    notes = (*step.notes, *unfulfilled(live, "the job was stopped"))
    return replace(stopping, actions=(*step.actions, *stopping.actions, *last), notes=notes)
