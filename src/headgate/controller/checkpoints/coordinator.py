"""The checkpoint coordinator: when a checkpoint starts, what it waits for, when it is given up.

Pure: facts in, decisions out. A checkpoint starts when its interval has elapsed, none is in flight
(collecting, recording, publishing, marking and saving all count as in flight), and no cleanup runs.

Neither checkpoints nor cleanup can starve the other. A cleanup falls due only after at least one
checkpoint has completed since the last cleanup began, and when it is due it goes before the next
checkpoint. It runs in slices of a tenth of the interval; a checkpoint that falls due meanwhile
waits for the slice at hand. A cleanup that is not finished goes on at once if no checkpoint is due,
and with one slice after every checkpoint if one always is. The final checkpoint of a job goes
before everything.

Epoch records are a log without gaps: a checkpoint that is given up is tried again under the same
epoch with the next attempt. Only collecting may be given up. Once the record is being written it
may exist, so from there on the checkpoint is completed or the job recovers and reads the truth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from headgate.controller.checkpoints.acknowledgements import Acknowledgements
from headgate.controller.checkpoints.auto_interval import auto_interval_ms
from headgate.controller.checkpoints.phases import (
    CheckpointInFlight,
    Collecting,
    Coordinator,
    Idle,
    Marking,
    Publishing,
    Recording,
    Saving,
)
from headgate.controller.rules.actions import (
    Action,
    MarkCommitted,
    RecordCheckpoint,
    RunCleanup,
    SendToWorker,
    WriteSavepoint,
)
from headgate.controller.rules.job_facts import Lineage, OperatorNeed
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import AbortNote, Note, SavepointNote
from headgate.core.errors import ErrorDomain, ErrorInfo
from headgate.core.ids import NO_EPOCH, Epoch, Generation
from headgate.core.messages import Barrier, Commit
from headgate.core.model import model

# However short the interval is, a slice of a cleanup is worth beginning. With local files it does
# a hundred steps in this time; over a network it does the few that `storage.py` insists on.
CLEANUP_SLICE_LEAST_MS = 10


@model
class GenerationView:
    """What the coordinator must know about the generation it works for."""

    generation: Generation
    parallelism: int
    needs: tuple[OperatorNeed, ...]
    limits: Limits
    cleaning: bool = False
    # The last slice of a cleanup has left something to do.
    cleanup_unfinished: bool = False
    restart_cost_ms: float | None = None


@model
class Decided:
    """The coordinator after an event, and what it wants done. `failure` ends the generation."""

    coordinator: Coordinator
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    failure: ErrorInfo | None = None


def begin(
    *, lineage: Lineage, now_ms: int, limits: Limits, cost_ms: float | None = None
) -> Coordinator:
    """Return the coordinator of a generation that starts to run now."""
    return Coordinator(
        lineage=lineage,
        last_started_ms=now_ms,
        # What a recovery restored from is at least as old as the recovery took: the next one is
        # due. It also lets a job move on that never lives for a whole interval.
        asked=lineage.last_epoch != NO_EPOCH,
        last_cleanup_ms=now_ms,
        # The first checkpoint of a generation makes a cleanup due: its predecessor left garbage.
        checkpoints_since_cleanup=max(1, limits.cleanup_every_checkpoints) - 1,
        cost_ms=cost_ms,
    )


def interval_ms(coordinator: Coordinator, view: GenerationView) -> int:
    """Return the interval in force."""
    chosen = view.limits.checkpoint_interval_ms
    if chosen == "auto":
        return auto_interval_ms(
            cost_ms=coordinator.cost_ms,
            restart_ms=view.restart_cost_ms,
            recovery_time_ms=view.limits.recovery_time_ms,
        )
    return chosen


def _checkpoint_due_ms(c: Coordinator, view: GenerationView) -> int:
    if c.asked or c.savepoints or c.final_wanted:
        return c.last_started_ms
    # With a very short interval an idle pipeline would do nothing but write empty checkpoints.
    least_ms = view.limits.idle_interval_ms if c.was_idle else 0
    return c.last_started_ms + max(least_ms, interval_ms(c, view))


def _cleanup_due_ms(c: Coordinator, view: GenerationView) -> int | None:
    if c.checkpoints_since_cleanup < max(1, view.limits.cleanup_every_checkpoints):
        return None
    return c.last_cleanup_ms + view.limits.cleanup_interval_ms


def _cleanup_is_due(c: Coordinator, view: GenerationView, now_ms: int) -> bool:
    due_ms = _cleanup_due_ms(c, view)
    if due_ms is not None and now_ms >= due_ms:
        return True
    # The next slice: a checkpoint that is due goes first, unless it has just had its turn.
    checkpoint_is_due = now_ms >= _checkpoint_due_ms(c, view)
    return view.cleanup_unfinished and (not checkpoint_is_due or c.checkpoints_since_cleanup > 0)


def cleanup_slice_ms(c: Coordinator, view: GenerationView) -> int:
    """Return how long a checkpoint may have to wait for a cleanup."""
    tenth_ms = max(CLEANUP_SLICE_LEAST_MS, interval_ms(c, view) // 10)
    return min(tenth_ms, view.limits.cleanup_time_ms)


def held_up_ms(c: Coordinator, view: GenerationView, *, since_ms: int, now_ms: int) -> int:
    """Return how long a checkpoint that is due has waited since then."""
    if not isinstance(c.phase, Idle) or c.final_done:
        return 0
    return max(0, now_ms - max(since_ms, _checkpoint_due_ms(c, view)))


def next_deadline(c: Coordinator, view: GenerationView) -> int | None:
    """Return when `poll` must be called at the latest; None = only an event can change anything."""
    limits = view.limits
    match c.phase:
        case Idle():
            if c.final_done or view.cleaning:
                return None
            if view.cleanup_unfinished:
                return c.last_cleanup_ms
            dues = [_checkpoint_due_ms(c, view), _cleanup_due_ms(c, view)]
            return min(due for due in dues if due is not None)
        case Collecting(checkpoint=checkpoint):
            return checkpoint.started_ms + limits.checkpoint_timeout_ms
        case Publishing(checkpoint=checkpoint, said_ms=said_ms):
            return min(
                checkpoint.started_ms + limits.checkpoint_timeout_ms,
                said_ms + limits.commit_repeat_ms,
            )
        case Recording() | Marking() | Saving():
            give_up = c.phase.checkpoint.started_ms + limits.checkpoint_timeout_ms
            retry_at = c.phase.retry_at_ms
            return give_up if retry_at is None else min(give_up, retry_at)
        case _:
            assert_never(c.phase)


def poll(c: Coordinator, view: GenerationView, now_ms: int) -> Decided:
    """Do what time alone makes due."""
    if isinstance(c.phase, Idle):
        return _start_next(c, view, now_ms)
    checkpoint = c.phase.checkpoint
    late = now_ms >= checkpoint.started_ms + view.limits.checkpoint_timeout_ms
    match c.phase:
        case Collecting():
            return _abort(c, c.phase, view, now_ms) if late else Decided(coordinator=c)
        case Saving():
            # The checkpoint itself is safe, so a savepoint that cannot be named is not a failure.
            return _give_up_saving(c, c.phase) if late else _retry(c, view, now_ms)
        case Recording() | Publishing() | Marking():
            if late:
                return Decided(coordinator=c, failure=_too_slow(checkpoint, c.phase.kind))
            return _retry(c, view, now_ms)
        case _:
            assert_never(c.phase)


def _start_next(c: Coordinator, view: GenerationView, now_ms: int) -> Decided:
    # Once the final checkpoint is done the worker reads nothing more: nothing is left to start.
    if c.final_done or view.cleaning:
        return Decided(coordinator=c)
    if not c.final_wanted and _cleanup_is_due(c, view, now_ms):
        cleaned = replace(c, last_cleanup_ms=now_ms, checkpoints_since_cleanup=0)
        piece = replace(cleanup(view), time_ms=cleanup_slice_ms(c, view))
        return Decided(coordinator=cleaned, actions=(piece,))
    if now_ms >= _checkpoint_due_ms(c, view):
        return _start_checkpoint(c, view, now_ms, attempt=c.declined + 1)
    return Decided(coordinator=c)


def _start_checkpoint(
    c: Coordinator, view: GenerationView, now_ms: int, *, attempt: int
) -> Decided:
    carried = () if isinstance(c.phase, Idle) else c.phase.checkpoint.savepoints
    checkpoint = CheckpointInFlight(
        epoch=Epoch(c.lineage.last_epoch + 1),
        attempt=attempt,
        started_ms=now_ms,
        final=c.final_wanted,
        savepoints=tuple(dict.fromkeys((*carried, *c.savepoints))),
        may_skip=_may_skip(c),
    )
    acks = Acknowledgements.none_of(view.needs, view.parallelism)
    started = replace(
        c,
        phase=Collecting(checkpoint=checkpoint, acks=acks),
        last_started_ms=now_ms,
        asked=False,
        savepoints=(),
    )
    return Decided(coordinator=started, actions=(barrier(checkpoint, view),))


def _may_skip(c: Coordinator) -> bool:
    """Whether the next checkpoint may be left out if the worker has nothing new.

    Not the first one of a job: it holds from where its sources read, even before they have rows.
    """
    wanted = c.asked or c.savepoints or c.final_wanted
    tried_before = not isinstance(c.phase, Idle)
    return not (wanted or tried_before or c.lineage.last_epoch == NO_EPOCH)


def cleanup(view: GenerationView) -> RunCleanup:
    """Return a cleanup that no checkpoint waits for."""
    return RunCleanup(
        generation=view.generation,
        retained_checkpoints=view.limits.retained_checkpoints,
        time_ms=view.limits.cleanup_time_ms,
    )


def barrier(checkpoint: CheckpointInFlight, view: GenerationView) -> SendToWorker:
    """Return the message that starts (or, for a worker that came back, repeats) the attempt."""
    message = Barrier(
        generation=view.generation,
        epoch=checkpoint.epoch,
        attempt=checkpoint.attempt,
        then_stop=checkpoint.final,
        may_skip=checkpoint.may_skip,
    )
    return SendToWorker(generation=view.generation, message=message)


def _abort(c: Coordinator, phase: Collecting, view: GenerationView, now_ms: int) -> Decided:
    missing = phase.acks.missing()
    waiting = ", ".join(f"{operator}/{subtask}" for operator, subtask in missing[:5])
    reason = f"waited for {waiting or 'the cut of the epoch'}"
    return try_again(c, phase.checkpoint, view, now_ms, reason=reason, missing=len(missing))


def try_again(
    c: Coordinator,
    checkpoint: CheckpointInFlight,
    view: GenerationView,
    now_ms: int,
    *,
    reason: str,
    missing: int,
) -> Decided:
    """Give this attempt up: the same epoch again with the next one, unless that was too often."""
    note = AbortNote(
        generation=view.generation,
        epoch=checkpoint.epoch,
        attempt=checkpoint.attempt,
        missing=missing,
        reason=reason,
    )
    aborts = c.aborts_in_row + 1
    if aborts > view.limits.checkpoint_aborts_max:
        failure = ErrorInfo(
            message=f"epoch {checkpoint.epoch} was given up {aborts} times in a row; the last time"
            f" it {note.reason}. Raise the checkpoint timeout if checkpoints are merely slow.",
            code="checkpoint_aborts",
        )
        return Decided(coordinator=c, notes=(note,), failure=failure)
    again = _start_checkpoint(
        replace(c, aborts_in_row=aborts), view, now_ms, attempt=checkpoint.attempt + 1
    )
    return replace(again, notes=(note,))


def _retry(c: Coordinator, view: GenerationView, now_ms: int) -> Decided:
    match c.phase:
        case Publishing(said_ms=said_ms):
            if now_ms < said_ms + view.limits.commit_repeat_ms:
                return Decided(coordinator=c)
            return repeat_message(replace(c, phase=replace(c.phase, said_ms=now_ms)), view)
        case Recording() | Marking() | Saving():
            if c.phase.retry_at_ms is None or now_ms < c.phase.retry_at_ms:
                return Decided(coordinator=c)
            again = replace(c, phase=replace(c.phase, retry_at_ms=None))
            return Decided(coordinator=again, actions=writes(again, view))
        case _:
            return Decided(coordinator=c)


def repeat_message(c: Coordinator, view: GenerationView) -> Decided:
    """Say again what the worker should be doing: its connection was lost, or it did not answer."""
    match c.phase:
        case Collecting(checkpoint=checkpoint):
            return Decided(coordinator=c, actions=(barrier(checkpoint, view),))
        case Publishing(checkpoint=checkpoint, sinks=sinks):
            commit = Commit(generation=view.generation, epoch=checkpoint.epoch, sinks=sinks)
            action = SendToWorker(generation=view.generation, message=commit)
            return Decided(coordinator=c, actions=(action,))
        case _:
            return Decided(coordinator=c)


def writes(c: Coordinator, view: GenerationView) -> tuple[Action, ...]:
    """Return the storage writes that the phase waits for."""
    match c.phase:
        case Recording(checkpoint=checkpoint, acks=acks, cut=cut):
            return (
                RecordCheckpoint(
                    generation=view.generation,
                    epoch=checkpoint.epoch,
                    attempt=checkpoint.attempt,
                    parallelism=view.parallelism,
                    lineage=c.lineage,
                    acks=acks,
                    cut=cut,
                    started_ms=checkpoint.started_ms,
                ),
            )
        case Marking(checkpoint=checkpoint):
            return (MarkCommitted(generation=view.generation, epoch=checkpoint.epoch),)
        case Saving(checkpoint=checkpoint, names=names):
            return tuple(
                WriteSavepoint(generation=view.generation, epoch=checkpoint.epoch, name=name)
                for name in names
            )
        case _:
            return ()


def _too_slow(checkpoint: CheckpointInFlight, doing: str) -> ErrorInfo:
    return ErrorInfo(
        message=f"epoch {checkpoint.epoch} did not get past {doing} within the checkpoint timeout",
        domain=ErrorDomain.EXTERNAL,
        code="checkpoint_timeout",
    )


def _give_up_saving(c: Coordinator, phase: Saving) -> Decided:
    notes = tuple(
        SavepointNote(
            name=name,
            generation=phase.generation,
            epoch=phase.checkpoint.epoch,
            failure="storage did not take it within the checkpoint timeout; ask for it again",
        )
        for name in phase.names
    )
    return Decided(coordinator=replace(c, phase=Idle()), notes=notes)


# ---- what people ask -------------------------------------------------------------------------


def ask_checkpoint(c: Coordinator) -> Coordinator:
    """A checkpoint starts as soon as nothing stands in its way."""
    return replace(c, asked=True)


def ask_savepoint(c: Coordinator, name: str) -> Coordinator:
    """The next checkpoint to start is named; one already in flight may have begun before."""
    return replace(c, savepoints=tuple(dict.fromkeys((*c.savepoints, name))))


def ask_final(c: Coordinator) -> Coordinator:
    """The next checkpoint to start is the last one; the worker reads nothing after it."""
    return replace(c, final_wanted=True)
