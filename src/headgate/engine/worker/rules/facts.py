"""What a worker is told: by its controller, by its engine, by its publisher, and by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.checkpoint import SinkCommit, StagedFile, TableState
from headgate.core.dropped import DroppedRow
from headgate.core.errors import ErrorInfo
from headgate.core.ids import OperatorId
from headgate.core.messages import ControllerMessage
from headgate.core.model import JsonValue

# An operator and one of its subtasks.
Place = tuple[OperatorId, int]

# ---- the controller --------------------------------------------------------------------------


@dataclass(frozen=True)
class Heard:
    """A message of the controller has arrived: a barrier, a commit or a stop."""

    message: ControllerMessage


@dataclass(frozen=True)
class LinkLost:
    """The controller is gone: nobody will record what this worker does, so it must end."""

    reason: str


# ---- the clock -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begun:
    """The edge is ready: the first fact of all."""


@dataclass(frozen=True)
class Tick:
    """The time that `Wait` asked for is over."""


# ---- resuming --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TargetsChecked:
    """Every target that was to be checked can be used by this job."""


@dataclass(frozen=True)
class StateLoaded:
    """Every run of the loading plan is there, and is what it was."""


# ---- micro-batches ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RowsSeen:
    """Rows of a source: how many, how many of them were bad, and their greatest watermark."""

    # None = there was no row with a time.
    watermark: int | None
    rows: int = 0
    bad: int = 0
    bad_sample: str | None = None
    samples: tuple[DroppedRow, ...] = ()


@dataclass(frozen=True)
class PlannedCut:
    """Where the next micro-batch would end in one source. `end` equal to the start = no rows."""

    end: JsonValue
    rows: int = 0
    # Rows known to be waiting behind `end`; None if the source cannot say.
    lag_rows: int | None = None
    # The same by parts of the source, if it has any.
    lags: Mapping[str, int] = field(default_factory=dict)
    # The source has no more rows after `end`, for ever.
    finished: bool = False
    # What is known of the rows before they are read; None = nothing.
    known: RowsSeen | None = None
    # What leads from the start to `end`, if the source says so.
    step: JsonValue = None


@dataclass(frozen=True)
class CutPlanned:
    """What every source that was asked has answered."""

    sources: Mapping[OperatorId, PlannedCut] = field(default_factory=dict)


@dataclass(frozen=True)
class SubtaskWork:
    """What one subtask did in one micro-batch, in figures."""

    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    # Examples of them.
    late: tuple[DroppedRow, ...] = ()
    new_objects: int = 0
    new_bytes: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchDone:
    """The micro-batch that was asked for has run."""

    elapsed_ms: float
    observed: Mapping[OperatorId, RowsSeen] = field(default_factory=dict)
    subtasks: Mapping[Place, SubtaskWork] = field(default_factory=dict)
    staged: Mapping[OperatorId, tuple[StagedFile, ...]] = field(default_factory=dict)
    # Every table of every subtask that has one; None if not all of that is durable.
    tables: Mapping[Place, tuple[TableState, ...]] | None = None
    # The earliest event time at which some subtask has something to emit.
    next_timer: int | None = None
    # Whether something since the last barrier is not durable yet.
    unflushed: bool = False
    timings: Mapping[str, float] = field(default_factory=dict)
    # Tries that did not count, because Spark lost executors in them.
    repeated: int = 0


@dataclass(frozen=True)
class WorkFailed:
    """A check of a target, a load, the plan of a cut or a micro-batch has failed."""

    error: ErrorInfo


# ---- publishing ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """One sink's part of one epoch is visible."""

    commit: SinkCommit


@dataclass(frozen=True)
class PublishFailed:
    commit: SinkCommit
    error: ErrorInfo


Fact = (
    Heard
    | LinkLost
    | Begun
    | Tick
    | TargetsChecked
    | StateLoaded
    | CutPlanned
    | BatchDone
    | WorkFailed
    | Published
    | PublishFailed
)
