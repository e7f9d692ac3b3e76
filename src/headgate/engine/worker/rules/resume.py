"""Phases 4 and 5 of a recovery, before new input, in this order:

1. targets: a target that belongs to somebody else now is refused before anything is done to it;
2. load: the runs of the checkpoint are fetched and verified;
3. publishes: what recorded epochs left to be published, oldest first;
4. replays: damaged epochs are run again, same cuts, same watermarks, no output;
5. the controller is told that the job is restored;
6. new targets: a sink that begins anew although an earlier life of the job left something to be
   published looks at its target after that: it may have to be emptied.

A job that starts for the first time passes through all of them with nothing to do but the targets.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.core.checkpoint import BatchCut
from headgate.core.messages import Restored
from headgate.engine.worker.rules.actions import CheckTargets, LoadState, RunBatch, Send, Wait
from headgate.engine.worker.rules.batches import look_at_sources, take_over
from headgate.engine.worker.rules.ending import end
from headgate.engine.worker.rules.facts import BatchDone
from headgate.engine.worker.rules.progress import at_totals
from headgate.engine.worker.rules.publishing import enqueue
from headgate.engine.worker.rules.resuming_sinks import resumes
from headgate.engine.worker.rules.state import Idle, Resuming, WorkerState, WorkerStep

# How long the first micro-batch after a recovery waits for the barrier that is due at once.
FIRST_BARRIER_MS_MAX = 250


def begin(state: WorkerState, now_ms: int) -> WorkerStep:
    """1: every target is looked at; a sink with something to publish goes on in its own first."""
    plan, sinks = state.start.plan, state.start.graph.sinks()
    pending = {commit.operator for commit in plan.pending_commits}
    resuming = {sink.id: sink.id in pending or resumes(plan, sink.id) for sink in sinks}
    begun = _at(state, replace(_resuming(state), at="targets", begun_ms=now_ms))
    return WorkerStep(begun, (CheckTargets(resuming),))


def targets_checked(state: WorkerState, now_ms: int) -> WorkerStep:
    """2, or the end of 6."""
    phase = _resuming(state)
    if state.stopping:
        return end(state)
    if phase.at == "new_targets":
        return _work(state, now_ms)
    if not state.tables:
        return state_loaded(state, now_ms)
    nothing_new = BatchCut(
        start=dict(state.positions),
        end=dict(state.positions),
        watermark=state.watermark.reached,
        emitted_watermark=state.emitted,
        now_ms=now_ms,
    )
    load = LoadState(nothing_new, state.ledger.next_epoch)
    return WorkerStep(_at(state, replace(phase, at="load")), (load,))


def state_loaded(state: WorkerState, now_ms: int) -> WorkerStep:
    """3: what is pending is published before anything else happens."""
    loaded = _at(state, replace(_resuming(state), at="publishes", loaded_ms=now_ms))
    return goes_on_resuming(enqueue(loaded, state.start.plan.pending_commits), now_ms)


def goes_on_resuming(decided: WorkerStep, now_ms: int) -> WorkerStep:
    """Go on to 4 if the last publish that a recovery waits for is over."""
    state, phase = decided.state, decided.state.phase
    if not isinstance(phase, Resuming) or phase.at != "publishes" or state.publishing.queue:
        return decided
    published = _at(state, replace(phase, at="replays", published_ms=now_ms))
    return decided.before(_replay_next(published, now_ms))


def _replay_next(state: WorkerState, now_ms: int) -> WorkerStep:
    """4: run the next recorded cut again, on the state that the last one left."""
    phase = _resuming(state)
    if state.stopping:
        return end(state)
    if not phase.replays:
        return _restored(state, now_ms)
    replay = phase.replays[0]
    if phase.cuts_done == len(replay.cut.batches):
        totals = replay.cut.totals
        rebuilt = replace(
            state,
            # The rows of the epoch were read again, and its output was not written.
            progress=state.progress
            if totals is None
            else at_totals(state.progress, totals, state.start.graph),
            watermark=state.watermark.with_epoch(
                replay.cut.source_watermarks, replay.cut.watermark
            ),
            emitted=replay.cut.emitted_watermark,
            ledger=state.ledger.with_rebuilt(replay.epoch),
            phase=replace(phase, replays=phase.replays[1:], cuts_done=0),
        )
        return _replay_next(rebuilt, now_ms)
    cut = replay.cut.batches[phase.cuts_done]
    batch = state.batches + 1
    again = RunBatch(batch, cut, state.ledger.next_epoch, suppress_output=True)
    return WorkerStep(replace(state, batches=batch), (again,))


def replayed_batch_done(state: WorkerState, fact: BatchDone, now_ms: int) -> WorkerStep:
    phase = _resuming(state)
    cut = phase.replays[0].cut.batches[phase.cuts_done]
    done = take_over(state, cut, fact)
    return _replay_next(_at(done, replace(phase, cuts_done=phase.cuts_done + 1)), now_ms)


def _restored(state: WorkerState, now_ms: int) -> WorkerStep:
    """5: tell the controller; 6: look at the targets that may have to be emptied."""
    phase = _resuming(state)
    timings = {
        "restore_ms": float(phase.loaded_ms - phase.begun_ms),
        "publish_ms": float(phase.published_ms - phase.loaded_ms),
        "replay_ms": float(now_ms - phase.published_ms),
    }
    told = Send(Restored(generation=state.start.generation, timings=timings))
    plan = state.start.plan
    anew = {c.operator for c in plan.pending_commits if not resumes(plan, c.operator)}
    if anew:
        check = CheckTargets(dict.fromkeys(sorted(anew), False))
        return WorkerStep(_at(state, replace(phase, at="new_targets")), (told, check))
    return WorkerStep(state, (told,)).before(_work(state, now_ms))


def _work(state: WorkerState, now_ms: int) -> WorkerStep:
    """After a recovery a checkpoint is due at once: its barrier is waited for, but not for long.

    With it in the first micro-batch, what that one emits is published before the second.
    """
    plan = state.start.plan
    if (plan.checkpoint is None and not plan.replays) or state.barrier is not None:
        return look_at_sources(state, now_ms)
    return WorkerStep(replace(state, phase=Idle()), (Wait(FIRST_BARRIER_MS_MAX),))


def _resuming(state: WorkerState) -> Resuming:
    assert isinstance(state.phase, Resuming)
    return state.phase


def _at(state: WorkerState, phase: Resuming) -> WorkerState:
    return replace(state, phase=phase)
