"""The one way into the rules: a fact, what the worker knows, and the time; out comes what follows.

Facts are stepped as they come, also while a micro-batch runs: a commit is published beside it, and
a barrier waits for the next cut.
"""

from __future__ import annotations

from typing import assert_never

from headgate.core.messages import Barrier, Commit, ControllerMessage, Start, Stop
from headgate.engine.worker.rules.barrier import take_barrier
from headgate.engine.worker.rules.batches import cut_planned, look_at_sources, normal_batch_done
from headgate.engine.worker.rules.ending import fail, stop
from headgate.engine.worker.rules.facts import (
    BatchDone,
    Begun,
    CutPlanned,
    Fact,
    Heard,
    LinkLost,
    Published,
    PublishFailed,
    StateLoaded,
    TargetsChecked,
    Tick,
    WorkFailed,
)
from headgate.engine.worker.rules.publishing import publish_failed, published, take_commit
from headgate.engine.worker.rules.resume import (
    begin,
    goes_on_resuming,
    replayed_batch_done,
    state_loaded,
    targets_checked,
)
from headgate.engine.worker.rules.state import Idle, Over, Resuming, WorkerState, WorkerStep


def step(state: WorkerState, fact: Fact, now_ms: int) -> WorkerStep:
    """Decide what a fact leads to. `now_ms` is the worker's clock: it may leap."""
    if isinstance(state.phase, Over):
        return WorkerStep(state)
    decided = _decide(state, fact, now_ms)
    if isinstance(fact, Published | PublishFailed):
        return goes_on_resuming(decided, now_ms)
    return decided


def _decide(state: WorkerState, fact: Fact, now_ms: int) -> WorkerStep:
    match fact:
        case Heard(message=message):
            return _hear(state, message, now_ms)
        case LinkLost():
            # Whoever takes the job up next starts a new generation: this one is over.
            return stop(state)
        case Begun():
            return begin(state, now_ms)
        case TargetsChecked():
            return targets_checked(state, now_ms)
        case StateLoaded():
            return state_loaded(state, now_ms)
        case Tick():
            if isinstance(state.phase, Idle):
                return look_at_sources(state, now_ms)
            return WorkerStep(state)
        case CutPlanned():
            return cut_planned(state, fact, now_ms)
        case BatchDone():
            if isinstance(state.phase, Resuming):
                return replayed_batch_done(state, fact, now_ms)
            return normal_batch_done(state, fact, now_ms)
        case Published(commit=commit):
            return published(state, commit)
        case PublishFailed():
            return publish_failed(state, fact)
        case WorkFailed(error=error):
            return fail(state, error)
        case _:
            assert_never(fact)


def _hear(state: WorkerState, message: ControllerMessage, now_ms: int) -> WorkerStep:
    if message.generation != state.start.generation:
        return WorkerStep(state)
    match message:
        case Barrier():
            return take_barrier(state, message, now_ms)
        case Commit():
            return take_commit(state, message)
        case Stop():
            return stop(state)
        case Start():
            # It has been told already what to run.
            return WorkerStep(state)
        case _:
            assert_never(message)
