"""How a worker ends: when it is told to, when its controller is gone, or when something failed."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.errors import ErrorInfo
from headgate.core.messages import TaskFailed, WorkerStopped
from headgate.engine.worker.rules.actions import End, Send
from headgate.engine.worker.rules.state import Draining, Idle, Over, WorkerState, WorkerStep


def stop(state: WorkerState) -> WorkerStep:
    """End after the work in hand. A micro-batch that runs is still acknowledged."""
    stopping = replace(state, stopping=True)
    return end(stopping) if isinstance(state.phase, Idle) else WorkerStep(stopping)


def end(state: WorkerState) -> WorkerStep:
    """Nothing is in hand any more: end, once what was to be published is."""
    if state.publishing.queue:
        return WorkerStep(replace(state, phase=Draining()))
    stopped = WorkerStopped(generation=state.start.generation)
    return WorkerStep(replace(state, phase=Over()), (Send(stopped), End()))


def fail(state: WorkerState, error: ErrorInfo) -> WorkerStep:
    """Say why, and end: only a recovery can go on, and it starts another generation."""
    failed = TaskFailed(generation=state.start.generation, error=error)
    return WorkerStep(replace(state, phase=Over()), (Send(failed), End()))
