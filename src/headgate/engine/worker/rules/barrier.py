"""A barrier is taken: each attempt at a checkpoint cuts the sources once."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.messages import Barrier
from headgate.engine.worker.rules.acknowledging import nothing_new
from headgate.engine.worker.rules.batches import look_at_sources
from headgate.engine.worker.rules.state import Idle, WorkerState, WorkerStep


def take_barrier(state: WorkerState, barrier: Barrier, now_ms: int) -> WorkerStep:
    """Have the next cut end the epoch. An attempt heard again is acknowledged in the same words.

    A second cut under the same attempt would mix two states in one checkpoint, and a late barrier
    of an earlier attempt would take the segment away from the one in flight.
    """
    heard = (barrier.epoch, barrier.attempt)
    if heard == state.acknowledged and state.acknowledgement is not None:
        return WorkerStep(state, (state.acknowledgement,))
    if heard == state.declined:
        # In the same words, although there may be something by now: the next attempt takes it.
        return WorkerStep(state, (nothing_new(barrier),))
    waiting = state.barrier
    is_new = waiting is None or heard > (waiting.epoch, waiting.attempt)
    if heard <= state.taken or not is_new:
        return WorkerStep(state)
    waits = replace(state, barrier=barrier)
    return look_at_sources(waits, now_ms) if isinstance(state.phase, Idle) else WorkerStep(waits)
