"""The facts of a checkpoint: what subtasks report, what records hold, what a restore is given.

Paths are relative to the job's folder in the state store. Times are microseconds of event time.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator

from headgate.core.ids import Epoch, Generation, JobId, OperatorId, Subtask
from headgate.core.model import JsonValue, model
from headgate.core.operator_spec import Role

# The watermark before any row was read, and after the end of all data.
WATERMARK_MIN = -(2**62)
WATERMARK_MAX = 2**62


@model
class HashFilter:
    """Keep the rows whose stored key hash satisfies pmod(hash, parallelism) == subtask."""

    parallelism: int
    subtask: Subtask


@model
class RunRef:
    """One immutable Parquet file of a state table, as one subtask sees it."""

    path: str
    bytes: int
    checksum: str  # "sha256:<hex>" of the file
    rows: int
    # Ranges of the stored key hash (signed 32 bit) and of the row times; None if there is none.
    min_hash: int | None = None
    max_hash: int | None = None
    min_time: int | None = None
    max_time: int | None = None
    # The epochs whose changes it holds. Newer runs win: order by (last_epoch, path).
    first_epoch: Epoch
    last_epoch: Epoch
    # All must hold for a row to belong to this subtask; empty = every row does.
    filters: tuple[HashFilter, ...] = ()
    # Holds for every row of the file: the subtask that wrote it, and of how many it was one. Noted
    # when the parallelism changes; None = not known.
    written_by: HashFilter | None = None


@model
class TableState:
    """One state table of one subtask: its live runs, oldest first."""

    name: str
    kind: Literal["keyed", "time"]
    # The Arrow schema of the rows, as base64 of its IPC form: lets a restore check compatibility.
    # A thousand subtasks say the same: it is held once.
    schema: Annotated[str, AfterValidator(sys.intern)]
    # For whoever reads the rows without the operator. Keyed tables: the columns that make a key,
    # and whether it is a bag, which holds many rows per key and from which a deletion takes one.
    keys: tuple[str, ...] = ()
    bag: bool = False
    # Rows with an earlier time are gone, though runs may still hold them. A restore does not
    # need it: it follows from the watermark.
    horizon: int = WATERMARK_MIN
    runs: tuple[RunRef, ...] = ()


@model
class StagedFile:
    """One durable, not yet visible piece of a sink's output."""

    path: str
    bytes: int
    checksum: str
    rows: int
    subtask: Subtask
    # The epoch whose staging folder holds it (an aborted epoch's output moves to the next one).
    epoch: Epoch
    # What the sink needs to know about the piece to publish it (e.g. its partition values).
    extra: dict[str, JsonValue] = {}  # noqa: RUF012


@model
class SubtaskTimings:
    """Milliseconds, for people: waiting for all input, writing the snapshot, making it durable."""

    alignment_ms: float = 0.0
    snapshot_ms: float = 0.0
    upload_ms: float = 0.0


@model
class SubtaskAck:
    """What one subtask of one operator has made durable at a barrier."""

    operator: OperatorId
    subtask: Subtask
    # Every live run of the subtask, new and old: an acknowledgement is complete in itself.
    tables: tuple[TableState, ...] = ()
    # Small driver-side values; by convention on subtask 0:
    # a source's "position" and "finished", a sink's "commit" (data for publish) and "state".
    globals: dict[str, JsonValue] = {}  # noqa: RUF012
    # Sinks: the output of this subtask staged since the last recorded epoch.
    staged: tuple[StagedFile, ...] = ()
    timings: SubtaskTimings = SubtaskTimings()
    # What this checkpoint newly wrote, objects and bytes.
    new_objects: int = 0
    new_bytes: int = 0


def subtasks_owed(role: Role | None, parallelism: int) -> int:
    """Return how many acknowledgements an operator of this role owes for every checkpoint.

    Sources are cut by the driver, so they owe one; the others one per subtask.
    """
    return 1 if role == "source" else parallelism


@model
class BatchCut:
    """The exact extent of one micro-batch: positions by source, and the watermark it ran with."""

    start: dict[OperatorId, JsonValue]
    end: dict[OperatorId, JsonValue]
    watermark: int
    rows: int = 0
    # The watermark up to which windows had been emitted before: rows behind it were late.
    emitted_watermark: int = WATERMARK_MIN
    # The wall clock the micro-batch saw: ingestion time, the same when it is replayed.
    now_ms: int = 0
    # What leads from start to end in sources whose positions are large.
    steps: dict[OperatorId, JsonValue] = {}  # noqa: RUF012

    def stored(self) -> BatchCut:
        """Return the cut as a checkpoint keeps it: with steps in place of the positions.

        The micro-batches of a job follow one another, so where one starts is known.
        """
        if not self.steps:
            return self
        return replace(
            self,
            start={s: p for s, p in self.start.items() if s not in self.steps},
            end={s: p for s, p in self.end.items() if s not in self.steps},
        )


@model
class OperatorProgress:
    """Rows of one operator since the job began.

    Counted where they are handed over: at sources, stateful operators and sinks. What lies between
    them Spark runs as one piece.
    """

    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    # Of a source: those that could not be read.
    rows_bad: int = 0


@model
class RowTotals:
    """What the job had done when a checkpoint was taken, in all its generations."""

    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    rows_bad: int = 0
    operators: dict[OperatorId, OperatorProgress] = {}  # noqa: RUF012


@model
class EpochCut:
    """What the driver knows of an epoch at its barrier. `watermark` is for the next micro-batch."""

    batches: tuple[BatchCut, ...]
    watermark: int
    # Per source, as observed; the watermark above is their minimum.
    source_watermarks: dict[OperatorId, int] = {}  # noqa: RUF012
    # The watermark of the last micro-batch run: windows up to it have been emitted.
    emitted_watermark: int = WATERMARK_MIN
    # None in checkpoints that were taken before there were any: the count then begins with 0.
    totals: RowTotals | None = None


@model
class CheckpointRef:
    """Names one checkpoint: an epoch as written by one generation."""

    generation: Generation
    epoch: Epoch


@model
class SinkCommit:
    """A publish that must happen: everything the sink needs, from the checkpoint alone."""

    operator: OperatorId
    epoch: Epoch
    staged: tuple[StagedFile, ...]
    commit: JsonValue = None


@model
class SubtaskLoad:
    """What one subtask of one operator starts from."""

    operator: OperatorId
    subtask: Subtask
    tables: tuple[TableState, ...]


@model
class EpochReplay:
    """A damaged epoch to be rebuilt: run these cuts from the restored state, output suppressed."""

    epoch: Epoch
    cut: EpochCut


@model
class LoadingPlan:
    """Everything a new generation needs to continue from a checkpoint (or from nothing)."""

    job: JobId
    # None = from scratch.
    checkpoint: CheckpointRef | None = None
    parallelism: int
    subtasks: tuple[SubtaskLoad, ...] = ()
    # operator -> what its subtasks said in `globals`: source positions, sink states.
    globals: dict[OperatorId, dict[str, JsonValue]] = {}  # noqa: RUF012
    cut: EpochCut | None = None
    # Publishes of recorded epochs that have no committed marker yet, oldest first.
    pending_commits: tuple[SinkCommit, ...] = ()
    replays: tuple[EpochReplay, ...] = ()

    def load(self, operator: OperatorId, subtask: int) -> tuple[TableState, ...]:
        for entry in self.subtasks:
            if entry.operator == operator and entry.subtask == subtask:
                return entry.tables
        return ()
