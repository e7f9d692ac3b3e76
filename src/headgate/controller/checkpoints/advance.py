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
    Frame,
    repeat_message,
    try_again,
    writes,
)
from headgate.controller.checkpoints.phases import (
    Collecting,
    Committing,
    Coordinator,
    Idle,
    Marking,
    Recording,
    Saving,
    is_complete,
    missing_acks,
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
from headgate.core.messages import EpochCutDone, SinkPublished, SubtaskAcked

# ---- what the worker says --------------------------------------------------------------------


def on_ack(c: Coordinator, frame: Frame, message: SubtaskAcked, now_ms: int) -> Decided:
    """Add an acknowledgement to the set. One of another generation or attempt changes nothing."""

    def add(phase: Collecting) -> Collecting:
        key = (message.ack.operator, int(message.ack.subtask))
        # The first one counts: a repeated message says the same, a zombie's must not replace it.
        if key not in missing_acks(phase, frame.needs, frame.parallelism):
            return phase
        return replace(phase, acks=(*phase.acks, message.ack))

    return _collect(c, frame, message, now_ms, add)


def on_cut(c: Coordinator, frame: Frame, message: EpochCutDone, now_ms: int) -> Decided:
    """Take the driver's own part of the checkpoint."""

    def add(phase: Collecting) -> Collecting:
        return phase if phase.cut is not None else replace(phase, cut=message.cut)

    return _collect(c, frame, message, now_ms, add)


def _collect(
    c: Coordinator,
    frame: Frame,
    message: SubtaskAcked | EpochCutDone,
    now_ms: int,
    add: Callable[[Collecting], Collecting],
) -> Decided:
    phase = c.phase
    if (
        not isinstance(phase, Collecting)
        or message.generation != frame.generation
        or message.epoch != phase.flight.epoch
        or message.attempt != phase.flight.attempt
    ):
        return Decided(coordinator=c)
    collected = add(phase)
    if collected.cut is None or not is_complete(collected, frame.needs, frame.parallelism):
        return Decided(coordinator=replace(c, phase=collected))
    recording = Recording(
        flight=replace(collected.flight, acked_ms=now_ms - collected.flight.started_ms),
        acks=collected.acks,
        cut=collected.cut,
    )
    after = replace(c, phase=recording)
    return Decided(coordinator=after, actions=writes(after, frame))


def on_published(c: Coordinator, frame: Frame, message: SinkPublished) -> Decided:
    """Note a sink's publish; when all have published, the committed marker may be written."""
    phase = c.phase
    if (
        not isinstance(phase, Committing)
        or message.generation != frame.generation
        or message.epoch != phase.flight.epoch
    ):
        return Decided(coordinator=c)
    waiting = tuple(sink for sink in phase.waiting if sink != message.operator)
    if waiting:
        return Decided(coordinator=replace(c, phase=replace(phase, waiting=waiting)))
    return _mark(c, phase, frame)


def _mark(c: Coordinator, phase: Committing, frame: Frame) -> Decided:
    marked = replace(c, phase=Marking(flight=phase.flight, summary=phase.summary))
    return Decided(coordinator=marked, actions=writes(marked, frame))


# ---- what storage says -----------------------------------------------------------------------


def on_recorded(c: Coordinator, frame: Frame, event: CheckpointRecorded, now_ms: int) -> Decided:
    """The checkpoint exists: everything it names may, and must, be published."""
    phase = c.phase
    if not isinstance(phase, Recording) or not _is_about(event, phase):
        return Decided(coordinator=c)
    flight = replace(phase.flight, recorded_ms=now_ms - phase.flight.started_ms)
    committing = Committing(
        flight=flight,
        sinks=sink_commits(phase, frame.needs),
        waiting=tuple(need.operator for need in frame.needs if need.role == "sink"),
        said_ms=now_ms,
        summary=summarize(replace(phase, flight=flight), frame.generation),
    )
    ref = CheckpointRef(generation=frame.generation, epoch=flight.epoch)
    recorded = replace(
        c,
        phase=committing,
        lineage=Lineage(parent=ref, previous=ref),
        aborts_in_row=0,
        was_idle=_is_idle(phase),
    )
    said = repeat_message(recorded, frame)
    if committing.waiting:
        return said
    # Nothing is published where there is no sink; the worker is still told that the epoch is over.
    marked = _mark(recorded, committing, frame)
    return replace(marked, actions=(*said.actions, *marked.actions))


def on_record_failed(c: Coordinator, frame: Frame, event: RecordFailed, now_ms: int) -> Decided:
    """Try the write again: only that tells whether the record exists."""
    if not isinstance(c.phase, Recording) or not _is_about(event, c.phase):
        return Decided(coordinator=c)
    return _again_later(c, c.phase, frame, event.error, now_ms)


def on_marker_failed(c: Coordinator, frame: Frame, event: MarkerFailed, now_ms: int) -> Decided:
    if not isinstance(c.phase, Marking) or event.epoch != c.phase.flight.epoch:
        return Decided(coordinator=c)
    return _again_later(c, c.phase, frame, event.error, now_ms)


def _again_later(
    c: Coordinator, phase: Recording | Marking | Saving, frame: Frame, error: ErrorInfo, now_ms: int
) -> Decided:
    if error.retry is RetryHint.NO_RETRY:
        return Decided(coordinator=c, failure=error)
    retry_at_ms = now_ms + frame.limits.storage_retry_ms
    return Decided(coordinator=replace(c, phase=replace(phase, retry_at_ms=retry_at_ms)))


def on_marked(c: Coordinator, frame: Frame, event: MarkerWritten, now_ms: int) -> Decided:
    """The epoch is over, unless a savepoint must still be named after it."""
    phase = c.phase
    if not isinstance(phase, Marking) or event.epoch != phase.flight.epoch:
        return Decided(coordinator=c)
    duration_ms = now_ms - phase.flight.started_ms
    note = replace(phase.summary, committed_ms=duration_ms)
    over = replace(
        c,
        phase=Idle(),
        final_done=phase.flight.final,
        final_wanted=c.final_wanted and not phase.flight.final,
        checkpoints_since_cleanup=c.checkpoints_since_cleanup + 1,
        cost_ms=smoothed(c.cost_ms, duration_ms),
    )
    if phase.flight.savepoints:
        saving = Saving(
            flight=phase.flight,
            generation=frame.generation,
            names=phase.flight.savepoints,
        )
        over = replace(over, phase=saving)
    return Decided(coordinator=over, actions=writes(over, frame), notes=(note,))


def on_saved(
    c: Coordinator, frame: Frame, event: SavepointWritten | SavepointFailed, now_ms: int
) -> Decided:
    phase = c.phase
    if not isinstance(phase, Saving) or event.name not in phase.names:
        return Decided(coordinator=c)
    if isinstance(event, SavepointFailed) and event.error.retry is not RetryHint.NO_RETRY:
        return _again_later(c, phase, frame, event.error, now_ms)
    failure = event.error.message if isinstance(event, SavepointFailed) else None
    note = SavepointNote(
        name=event.name, generation=event.generation, epoch=event.epoch, failure=failure
    )
    names = tuple(name for name in phase.names if name != event.name)
    return Decided(
        coordinator=replace(c, phase=replace(phase, names=names) if names else Idle()),
        notes=(note,),
    )


def on_attempt_taken(c: Coordinator, frame: Frame, event: AttemptTaken, now_ms: int) -> Decided:
    """Somebody wrote other facts under this attempt, and they do not count: use the next one."""
    phase = c.phase
    if not isinstance(phase, Recording) or not _is_about(event, phase):
        return Decided(coordinator=c)
    reason = "found other facts under the same attempt"
    return try_again(c, phase.flight, frame, now_ms, reason=reason, missing=0)


def _is_about(event: CheckpointRecorded | RecordFailed | AttemptTaken, phase: Recording) -> bool:
    return event.epoch == phase.flight.epoch and event.attempt == phase.flight.attempt


def _is_idle(phase: Recording) -> bool:
    """Whether the epoch has neither read nor written a row."""
    read = any(batch.rows for batch in phase.cut.batches)
    return not read and not any(ack.staged for ack in phase.acks)
