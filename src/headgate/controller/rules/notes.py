"""What a step wants remembered in the job's history, besides the change of state itself."""

from __future__ import annotations

from headgate.core.checkpoint import WATERMARK_MIN, RowTotals
from headgate.core.ids import Epoch, Generation, OperatorId, Subtask
from headgate.core.messages import ExecutorInfo, ExecutorLost, ExecutorRefused
from headgate.core.model import model


@model
class PhaseNote:
    """One phase of one recovery: identify, prepare, restart_workers, restore, resume."""

    recovery: int
    phase: str
    started_ms: int
    duration_ms: float
    detail: dict[str, float] = {}  # noqa: RUF012


@model
class SubtaskNote:
    """What one subtask said about its part of a checkpoint."""

    operator: OperatorId
    subtask: Subtask
    alignment_ms: float
    snapshot_ms: float
    upload_ms: float
    new_objects: int
    new_bytes: int


@model
class CheckpointNote:
    """A checkpoint that came to its end: every sink has published."""

    generation: Generation
    epoch: Epoch
    attempt: int
    started_ms: int
    # Milliseconds from the start to: all acknowledged, epoch recorded, committed.
    acked_ms: int
    recorded_ms: int
    committed_ms: int
    new_objects: int
    new_bytes: int
    rows_staged: int
    final: bool
    # The slowest hundred. All of them are in the metadata of the checkpoint.
    subtasks: tuple[SubtaskNote, ...] = ()


@model
class AbortNote:
    """A checkpoint that took too long and is tried again."""

    generation: Generation
    epoch: Epoch
    attempt: int
    missing: int
    reason: str


@model
class SavepointNote:
    name: str
    generation: Generation
    epoch: Epoch
    # None = written.
    failure: str | None = None


@model
class CleanupNote:
    """One slice of a cleanup."""

    objects_deleted: int = 0
    bytes_deleted: int = 0
    duration_ms: int = 0
    # How long a checkpoint that fell due waited for it.
    held_up_ms: int = 0
    finished: bool = True
    failure: str | None = None


@model
class SkippedNote:
    """A checkpoint that recovery had to set aside."""

    epoch: Epoch
    reason: str


@model
class ExecutorsNote:
    """Spark's executors that came and went, and those that were sent away."""

    generation: Generation
    joined: tuple[ExecutorInfo, ...] = ()
    lost: tuple[ExecutorLost, ...] = ()
    refused: tuple[ExecutorRefused, ...] = ()
    # How many there are now.
    executors: int

    def text(self) -> str:
        """Return it in one line."""
        told = [f"executor {e.id} joined on {e.host} ({e.cores} cores)" for e in self.joined]
        told += [
            f"executor {e.executor.id} on {e.executor.host} was lost: {e.reason}" for e in self.lost
        ]
        told += [
            f"executor {e.executor.id} on {e.executor.host} was sent away: {'; '.join(e.findings)}"
            for e in self.refused
        ]
        return f"{'. '.join(told)}. There are {self.executors} now"


@model
class WaitNote:
    """What the job waits for outside of Headgate. Only announced: it is about this moment."""

    # Empty = it waits no longer.
    waiting_for: str


@model
class ResumedNote:
    """A generation goes on from a checkpoint: which, and what the job had done by then."""

    epoch: Epoch
    # When it was taken; None = it is rebuilt from the beginning.
    created_ms: int | None = None
    watermark: int = WATERMARK_MIN
    totals: RowTotals | None = None


Note = (
    PhaseNote
    | CheckpointNote
    | AbortNote
    | SavepointNote
    | CleanupNote
    | SkippedNote
    | ExecutorsNote
    | ResumedNote
)
