"""A checkpoint in flight, as data: the phases it goes through and what each waits for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headgate.controller.checkpoints.acknowledgements import Acknowledgements
from headgate.controller.rules.job_facts import Lineage, OperatorNeed
from headgate.controller.rules.notes import CheckpointNote, SubtaskNote
from headgate.core.checkpoint import EpochCut, SinkCommit, StagedFile, SubtaskAck
from headgate.core.ids import Epoch, Generation, OperatorId
from headgate.core.model import JsonValue, model

# The database keeps a thousand notes of a job, and the service its newest ones in memory.
SUBTASKS_NOTED_MAX = 100


@model
class CheckpointInFlight:
    """What identifies one attempt at one checkpoint. Durations count from its start."""

    epoch: Epoch
    attempt: int
    started_ms: int
    # No input is read after it.
    final: bool = False
    # Only time asks for it: not needed if nothing has changed.
    may_skip: bool = False
    # The names it is to be saved under.
    savepoints: tuple[str, ...] = ()
    acked_ms: int = 0
    recorded_ms: int = 0


@model
class Idle:
    kind: Literal["idle"] = "idle"


@model
class Collecting:
    """The barrier was sent."""

    kind: Literal["collecting"] = "collecting"
    checkpoint: CheckpointInFlight
    acks: Acknowledgements
    cut: EpochCut | None = None


@model
class Recording:
    """Everything is durable; metadata, manifest and epoch record are being written.

    `acks` are by operator and subtask, so that a publish that is repeated finds the same.
    """

    kind: Literal["recording"] = "recording"
    checkpoint: CheckpointInFlight
    acks: tuple[SubtaskAck, ...]
    cut: EpochCut
    retry_at_ms: int | None = None


@model
class Publishing:
    """The epoch record exists; the sinks in `waiting` have not confirmed their publish."""

    kind: Literal["publishing"] = "publishing"
    checkpoint: CheckpointInFlight
    sinks: tuple[SinkCommit, ...]
    waiting: tuple[OperatorId, ...]
    said_ms: int
    summary: CheckpointNote


@model
class Marking:
    """Everything is published; the committed marker is being written."""

    kind: Literal["marking"] = "marking"
    checkpoint: CheckpointInFlight
    summary: CheckpointNote
    retry_at_ms: int | None = None


@model
class Saving:
    """Committed; the savepoints that were asked for are being named."""

    kind: Literal["saving"] = "saving"
    checkpoint: CheckpointInFlight
    generation: Generation
    names: tuple[str, ...]
    retry_at_ms: int | None = None


Phase = Annotated[
    Idle | Collecting | Recording | Publishing | Marking | Saving, Field(discriminator="kind")
]


@model
class Coordinator:
    """The coordinator of one generation."""

    lineage: Lineage
    last_started_ms: int
    last_cleanup_ms: int
    checkpoints_since_cleanup: int
    phase: Phase = Idle()
    aborts_in_row: int = 0
    # What people asked for and no checkpoint has taken up yet.
    asked: bool = False
    savepoints: tuple[str, ...] = ()
    # The last epoch had no rows, or there was nothing to make one of.
    was_idle: bool = False
    # Attempts at the next epoch that the worker declined: an attempt is used once.
    declined: int = 0
    final_wanted: bool = False
    final_done: bool = False
    # What a checkpoint costs, smoothed; None = not measured yet.
    cost_ms: float | None = None


def sink_commits(phase: Recording, needs: tuple[OperatorNeed, ...]) -> tuple[SinkCommit, ...]:
    """Return what every sink must publish of this epoch, from the acknowledgements alone."""
    staged: dict[OperatorId, list[StagedFile]] = {
        need.operator: [] for need in needs if need.role == "sink"
    }
    commit: dict[OperatorId, JsonValue] = {}
    for ack in phase.acks:
        if ack.operator in staged:
            staged[ack.operator].extend(ack.staged)
            if "commit" in ack.globals:
                commit[ack.operator] = ack.globals["commit"]
    return tuple(
        SinkCommit(
            operator=sink,
            epoch=phase.checkpoint.epoch,
            staged=tuple(files),
            commit=commit.get(sink),
        )
        for sink, files in staged.items()
    )


def summarize(phase: Recording, generation: Generation) -> CheckpointNote:
    """Return the checkpoint as history keeps it; `committed_ms` is filled in at its end."""
    slowest = sorted(phase.acks, key=_took_ms, reverse=True)[:SUBTASKS_NOTED_MAX]
    subtasks = tuple(
        SubtaskNote(
            operator=ack.operator,
            subtask=ack.subtask,
            alignment_ms=ack.timings.alignment_ms,
            snapshot_ms=ack.timings.snapshot_ms,
            upload_ms=ack.timings.upload_ms,
            new_objects=ack.new_objects,
            new_bytes=ack.new_bytes,
        )
        for ack in sorted(slowest, key=lambda ack: (ack.operator, ack.subtask))
    )
    return CheckpointNote(
        generation=generation,
        epoch=phase.checkpoint.epoch,
        attempt=phase.checkpoint.attempt,
        started_ms=phase.checkpoint.started_ms,
        acked_ms=phase.checkpoint.acked_ms,
        recorded_ms=phase.checkpoint.recorded_ms,
        committed_ms=0,
        new_objects=sum(ack.new_objects for ack in phase.acks),
        new_bytes=sum(ack.new_bytes for ack in phase.acks),
        rows_staged=sum(file.rows for ack in phase.acks for file in ack.staged),
        final=phase.checkpoint.final,
        subtasks=subtasks,
    )


def _took_ms(ack: SubtaskAck) -> float:
    return ack.timings.alignment_ms + ack.timings.snapshot_ms + ack.timings.upload_ms
