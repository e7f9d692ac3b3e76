"""When a micro-batch runs, and where it ends.

The sources are asked first; their answers fix the end of the next micro-batch before anything is
read. It runs if there is input, if a window is due, or if a barrier finds something that is not
durable yet. The barrier that waits when the answers come ends its epoch with this cut.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.core.checkpoint import WATERMARK_MAX, BatchCut
from headgate.core.messages import Barrier, SourcesFinished
from headgate.engine.worker.rules.acknowledging import acknowledge, decline
from headgate.engine.worker.rules.actions import PlanCut, RunBatch, Send, Wait
from headgate.engine.worker.rules.ending import end
from headgate.engine.worker.rules.facts import BatchDone, CutPlanned
from headgate.engine.worker.rules.progress import after_batch
from headgate.engine.worker.rules.state import Cutting, Idle, Running, WorkerState, WorkerStep

IDLE_MS_MAX = 250
IDLE_MS_FIRST = 10


def look_at_sources(state: WorkerState, now_ms: int) -> WorkerStep:
    """Ask every source that may have rows where the next micro-batch ends."""
    if state.stopping:
        return end(state)
    cutting = replace(state, phase=Cutting())
    asked = {
        source: position
        for source, position in state.positions.items()
        if state.reading and source not in state.watermark.finished
    }
    if not asked:
        return cut_planned(cutting, CutPlanned(), now_ms)
    return WorkerStep(cutting, (PlanCut(asked, state.pace.limit, now_ms),))


def cut_planned(state: WorkerState, fact: CutPlanned, now_ms: int) -> WorkerStep:
    """Every source has said where it stands: run, acknowledge, or wait."""
    if state.stopping:
        return end(state)
    barrier = state.barrier
    taken, cut = _cut(replace(state, barrier=None), fact, now_ms)
    if barrier is not None and barrier.then_stop:
        taken = replace(taken, reading=False)
    if _must_run(taken, cut, barrier):
        return _run(taken, cut, barrier)
    # Nothing is open up to the watermark.
    passed = replace(taken, emitted=max(taken.emitted, cut.watermark))
    if barrier is None:
        return _rest(passed)
    if barrier.may_skip and passed.ledger.is_empty(barrier.epoch):
        declined = decline(passed, barrier)
        return declined.before(_rest(declined.state))
    said = acknowledge(passed, barrier, {})
    return said.before(_go_on(said.state, now_ms))


def _cut(state: WorkerState, fact: CutPlanned, now_ms: int) -> tuple[WorkerState, BatchCut]:
    """Take over what the sources have said, and fix the cut."""
    watermark, ends = state.watermark, dict(state.positions)
    for source, planned in fact.sources.items():
        ends[source] = planned.end
        has_rows = planned.end != state.positions[source] or bool(planned.lag_rows)
        watermark = watermark.with_look(source, has_rows=has_rows, now_ms=now_ms)
        # What is known of the rows before they are read moves the watermark already now: the
        # same micro-batch takes them up and emits what they close.
        if planned.known is not None:
            watermark = watermark.with_rows(source, planned.known.watermark)
        if planned.finished:
            watermark = watermark.with_end(source)
    watermark = watermark.advanced()
    cut = BatchCut(
        start=dict(state.positions),
        end=ends,
        watermark=watermark.reached,
        emitted_watermark=state.emitted,
        rows=sum(planned.rows for planned in fact.sources.values()),
        now_ms=now_ms,
        steps={s: p.step for s, p in fact.sources.items() if p.step is not None},
    )
    lag_rows = sum(planned.lag_rows or 0 for planned in fact.sources.values())
    lags = {source: planned.lags for source, planned in fact.sources.items() if planned.lags}
    return replace(state, watermark=watermark, lag_rows=lag_rows, lags=lags), cut


def _must_run(state: WorkerState, cut: BatchCut, barrier: Barrier | None) -> bool:
    has_input = cut.end != cut.start
    is_due = state.next_timer is not None and state.next_timer <= cut.watermark
    # What a restored state has open is not known until its operators have run once.
    unknown = state.batches == 0 and bool(state.tables)
    return has_input or is_due or unknown or (barrier is not None and state.unflushed)


def _run(state: WorkerState, cut: BatchCut, barrier: Barrier | None) -> WorkerStep:
    epoch = state.ledger.next_epoch if barrier is None else barrier.epoch
    batch = state.batches + 1
    running = replace(state, phase=Running(cut, barrier), batches=batch)
    return WorkerStep(running, (RunBatch(batch, cut, epoch, barrier=barrier is not None),))


def normal_batch_done(state: WorkerState, fact: BatchDone, now_ms: int) -> WorkerStep:
    """Take the result over, and acknowledge the barrier that ended with it."""
    phase = state.phase
    assert isinstance(phase, Running)
    done = take_over(state, phase.cut, fact)
    if phase.barrier is None:
        return _go_on(done, now_ms)
    said = acknowledge(done, phase.barrier, fact.subtasks)
    return said.before(_go_on(said.state, now_ms))


def take_over(state: WorkerState, cut: BatchCut, fact: BatchDone) -> WorkerState:
    """The micro-batch is part of the epoch: what it has read, seen, staged and left open."""
    watermark = state.watermark
    for source, seen in fact.observed.items():
        watermark = watermark.with_rows(source, seen.watermark)
    behind = bool(state.lag_rows) or cut.rows >= state.pace.limit
    sinks = frozenset(sink.id for sink in state.start.graph.sinks())
    return replace(
        state,
        positions=dict(cut.end),
        emitted=max(state.emitted, cut.watermark),
        watermark=watermark,
        ledger=state.ledger.with_batch(cut, fact.staged),
        pace=state.pace.after(fact.elapsed_ms, behind=behind),
        tables=state.tables if fact.tables is None else fact.tables,
        next_timer=fact.next_timer,
        unflushed=fact.unflushed,
        progress=after_batch(
            state.progress,
            fact,
            sinks=sinks,
            watermark=watermark.reached,
            lag_rows=state.lag_rows,
            lags=state.lags,
        ),
    )


def _go_on(state: WorkerState, now_ms: int) -> WorkerStep:
    """Something was done: there may be more."""
    told = _tell_finished(replace(state, idle_ms=0))
    return told.before(look_at_sources(told.state, now_ms))


def _rest(state: WorkerState) -> WorkerStep:
    """Nothing is to be done: look again after a while that grows."""
    idle_ms = min(IDLE_MS_MAX, state.idle_ms * 2 + IDLE_MS_FIRST)
    told = _tell_finished(replace(state, phase=Idle(), idle_ms=idle_ms))
    return replace(told, actions=(*told.actions, Wait(idle_ms)))


def _tell_finished(state: WorkerState) -> WorkerStep:
    """Say that every source has ended and everything open has been emitted."""
    ended = state.watermark.all_finished and state.emitted == WATERMARK_MAX
    if not ended or state.told_finished:
        return WorkerStep(state)
    message = SourcesFinished(generation=state.start.generation)
    return WorkerStep(replace(state, told_finished=True), (Send(message),))
