"""How a checkpoint gets on: what acknowledgements, publishes and storage's answers do to it.

The other half of the coordinator; `coordinator.py` decides when a checkpoint starts and when it is
given up. An answer that belongs to another checkpoint than the one in flight changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headgate.controller.checkpoints.auto_interval import smoothed
from headgate.controller.checkpoints.coordinator import (
    Decided,
    GenerationView,
    repeat_message,
    try_again,
    writes,
)
from headgate.controller.checkpoints.phases import (
    Collecting,
    Coordinator,
    Idle,
    Marking,
    Publishing,
    Recording,
    Saving,
    sink_commits,
    summarize,
)
from headgate.controller.rules.events import (
    AttemptTaken,
    CheckpointRecorded,
    MarkerFailed,
    MarkerWritten,
    RecordFailed,
    SavepointFailed,
    SavepointWritten,
)
from headgate.controller.rules.job_facts import Lineage
from headgate.controller.rules.notes import SavepointNote
from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import ErrorInfo, RetryHint
from headgate.core.messages import (
    EpochCutDone,
    NothingToCheckpoint,
    SinkPublished,
    SubtaskAcked,
)

# ---- what the worker says --------------------------------------------------------------------


def on_ack(c: Coordinator, view: GenerationView, message: SubtaskAcked, now_ms: int) -> Decided:
    """Add an acknowledgement to the set. One of another generation or attempt changes nothing."""

    def add(phase: Collecting) -> Collecting:
        return replace(phase, acks=phase.acks.with_ack(message.ack))

    return _collect(c, view, message, now_ms, add)


def on_cut(c: Coordinator, view: GenerationView, message: EpochCutDone, now_ms: int) -> Decided:
    """Take the driver's own part of the checkpoint."""

    def add(phase: Collecting) -> Collecting:
        return phase if phase.cut is not None else replace(phase, cut=message.cut)

    return _collect(c, view, message, now_ms, add)


def _collect(
    c: Coordinator,
    view: GenerationView,
    message: SubtaskAcked | EpochCutDone,
    now_ms: int,
    add: Callable[[Collecting], Collecting],
) -> Decided:
    phase = c.phase
    if (
        not isinstance(phase, Collecting)
        or message.generation != view.generation
        or message.epoch != phase.checkpoint.epoch
        or message.attempt != phase.checkpoint.attempt
    ):
        return Decided(coordinator=c)
    collected = add(phase)
    if collected.cut is None or not collected.acks.is_complete:
        return Decided(coordinator=replace(c, phase=collected))
    recording = Recording(
        checkpoint=replace(collected.checkpoint, acked_ms=now_ms - collected.checkpoint.started_ms),
        acks=collected.acks.received(),
        cut=collected.cut,
    )
    after = replace(c, phase=recording)
    return Decided(coordinator=after, actions=writes(after, view))


def on_nothing(c: Coordinator, view: GenerationView, message: NothingToCheckpoint) -> Decided:
    """The worker has nothing new: the epoch is still to come, with the next attempt's number."""
    phase = c.phase
    if (
        not isinstance(phase, Collecting)
        or message.generation != view.generation
        or message.epoch != phase.checkpoint.epoch
        or message.attempt != phase.checkpoint.attempt
        or not phase.checkpoint.may_skip
    ):
        return Decided(coordinator=c)
    declined = phase.checkpoint.attempt
    return Decided(coordinator=replace(c, phase=Idle(), was_idle=True, declined=declined))


def on_published(c: Coordinator, view: GenerationView, message: SinkPublished) -> Decided:
    """Note a sink's publish; when all have published, the committed marker may be written."""
    phase = c.phase
    if (
        not isinstance(phase, Publishing)
        or message.generation != view.generation
        or message.epoch != phase.checkpoint.epoch
    ):
        return Decided(coordinator=c)
    waiting = tuple(sink for sink in phase.waiting if sink != message.operator)
    if waiting:
        return Decided(coordinator=replace(c, phase=replace(phase, waiting=waiting)))
    return _mark(c, phase, view)


def _mark(c: Coordinator, phase: Publishing, view: GenerationView) -> Decided:
    marked = replace(c, phase=Marking(checkpoint=phase.checkpoint, summary=phase.summary))
    return Decided(coordinator=marked, actions=writes(marked, view))


# ---- what storage says -----------------------------------------------------------------------


def on_recorded(
    c: Coordinator, view: GenerationView, event: CheckpointRecorded, now_ms: int
) -> Decided:
    """The checkpoint exists: everything it names may, and must, be published."""
    phase = c.phase
    if not isinstance(phase, Recording) or not _is_about(event, phase):
        return Decided(coordinator=c)
    checkpoint = replace(phase.checkpoint, recorded_ms=now_ms - phase.checkpoint.started_ms)
    publishing = Publishing(
        checkpoint=checkpoint,
        sinks=sink_commits(phase, view.needs),
        waiting=tuple(need.operator for need in view.needs if need.role == "sink"),
        said_ms=now_ms,
        summary=summarize(replace(phase, checkpoint=checkpoint), view.generation),
    )
    ref = CheckpointRef(generation=view.generation, epoch=checkpoint.epoch)
    recorded = replace(
        c,
        phase=publishing,
        lineage=Lineage(parent=ref, previous=ref),
        aborts_in_row=0,
        declined=0,
        was_idle=_is_idle(phase),
    )
    said = repeat_message(recorded, view)
    if publishing.waiting:
        return said
    # Nothing is published if there is no sink; the worker is still told that the epoch is over.
    marked = _mark(recorded, publishing, view)
    return replace(marked, actions=(*said.actions, *marked.actions))


def on_record_failed(
    c: Coordinator, view: GenerationView, event: RecordFailed, now_ms: int
) -> Decided:
    """Try the write again: only that tells whether the record exists."""
    if not isinstance(c.phase, Recording) or not _is_about(event, c.phase):
        return Decided(coordinator=c)
    return _again_later(c, c.phase, view, event.error, now_ms)


def on_marker_failed(
    c: Coordinator, view: GenerationView, event: MarkerFailed, now_ms: int
) -> Decided:
    if not isinstance(c.phase, Marking) or event.epoch != c.phase.checkpoint.epoch:
        return Decided(coordinator=c)
    return _again_later(c, c.phase, view, event.error, now_ms)


def _again_later(
    c: Coordinator,
    phase: Recording | Marking | Saving,
    view: GenerationView,
    error: ErrorInfo,
    now_ms: int,
) -> Decided:
    if error.retry is RetryHint.NO_RETRY:
        return Decided(coordinator=c, failure=error)
    retry_at_ms = now_ms + view.limits.storage_retry_ms
    return Decided(coordinator=replace(c, phase=replace(phase, retry_at_ms=retry_at_ms)))


def on_marked(c: Coordinator, view: GenerationView, event: MarkerWritten, now_ms: int) -> Decided:
    """The epoch is over, unless a savepoint must still be named after it."""
    phase = c.phase
    if not isinstance(phase, Marking) or event.epoch != phase.checkpoint.epoch:
        return Decided(coordinator=c)
    duration_ms = now_ms - phase.checkpoint.started_ms
    note = replace(phase.summary, committed_ms=duration_ms)
    over = replace(
        c,
        phase=Idle(),
        final_done=phase.checkpoint.final,
        final_wanted=c.final_wanted and not phase.checkpoint.final,
        checkpoints_since_cleanup=c.checkpoints_since_cleanup + 1,
        cost_ms=smoothed(c.cost_ms, duration_ms),
    )
    if phase.checkpoint.savepoints:
        saving = Saving(
            checkpoint=phase.checkpoint,
            generation=view.generation,
            names=phase.checkpoint.savepoints,
        )
        over = replace(over, phase=saving)
    return Decided(coordinator=over, actions=writes(over, view), notes=(note,))


def on_saved(
    c: Coordinator, view: GenerationView, event: SavepointWritten | SavepointFailed, now_ms: int
) -> Decided:
    phase = c.phase
    if not isinstance(phase, Saving) or event.name not in phase.names:
        return Decided(coordinator=c)
    if isinstance(event, SavepointFailed) and event.error.retry is not RetryHint.NO_RETRY:
        return _again_later(c, phase, view, event.error, now_ms)
    failure = event.error.message if isinstance(event, SavepointFailed) else None
    note = SavepointNote(
        name=event.name, generation=event.generation, epoch=event.epoch, failure=failure
    )
    names = tuple(name for name in phase.names if name != event.name)
    return Decided(
        coordinator=replace(c, phase=replace(phase, names=names) if names else Idle()),
        notes=(note,),
    )


def on_attempt_taken(
    c: Coordinator, view: GenerationView, event: AttemptTaken, now_ms: int
) -> Decided:
    """Somebody wrote other facts under this attempt, and they do not count: use the next one."""
    phase = c.phase
    if not isinstance(phase, Recording) or not _is_about(event, phase):
        return Decided(coordinator=c)
    reason = "found other facts under the same attempt"
    return try_again(c, phase.checkpoint, view, now_ms, reason=reason, missing=0)


def _is_about(event: CheckpointRecorded | RecordFailed | AttemptTaken, phase: Recording) -> bool:
    return event.epoch == phase.checkpoint.epoch and event.attempt == phase.checkpoint.attempt


def _is_idle(phase: Recording) -> bool:
    """Whether the epoch has neither read nor written a row."""
    read = any(batch.rows for batch in phase.cut.batches)
    return not read and not any(ack.staged for ack in phase.acks)
