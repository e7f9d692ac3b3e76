"""Everything that can happen to a job, as data.

A worker's messages (`core/messages.py`) are events as they are. Results of actions carry the
`turn` they were asked in, or the (generation, epoch, attempt) of the checkpoint they belong to, so
that a late one can be told from a current one.

Events come in groups (`Command`, `ActionResult`, `WorkerEvent`), so that a rule names those it acts
on one by one and the rest as groups; `assert_never` at its end refuses an event of no group.
"""

from __future__ import annotations

from headgate.controller.rules.job_facts import Lineage, OperatorNeed, RestartMode, StopMode
from headgate.controller.rules.limits import Limits
from headgate.core.checkpoint import LoadingPlan
from headgate.core.errors import ErrorInfo
from headgate.core.ids import NO_EPOCH, NO_GENERATION, Epoch, Generation
from headgate.core.messages import (
    EpochCutDone,
    ExecutorsChanged,
    Heartbeat,
    NothingToCheckpoint,
    Register,
    Restored,
    SinkPublished,
    SourcesFinished,
    SubtaskAcked,
    TaskFailed,
    WorkerEvent,
    WorkerStopped,
)
from headgate.core.model import model

# ---- time, and the controller itself ---------------------------------------------------------


@model
class Tick:
    """The deadline of the state (`next_deadline`) has passed; nothing else happened."""


@model
class TakenUp:
    """A controller took the job up: after its creation, or after the death of another one.

    Whatever the last controller had under way (processes, connections, actions) is unknown.
    """

    claimant: str


# ---- people ----------------------------------------------------------------------------------


class Command:
    """Asked for by a person."""


@model
class StopRequested(Command):
    mode: StopMode


@model
class RestartRequested(Command):
    mode: RestartMode
    # How to run it from now on; None = as before.
    parallelism: int | None = None
    limits: Limits | None = None


@model
class RescaleRequested(Command):
    parallelism: int


class CheckpointCommand(Command):
    """Only a job that runs can carry it out."""


@model
class CheckpointRequested(CheckpointCommand):
    pass


@model
class SavepointRequested(CheckpointCommand):
    name: str


# ---- results of actions ----------------------------------------------------------------------


class ActionResult:
    """What came of something that the rules had asked for."""


class TurnResult(ActionResult):
    """The result of an action that belongs to one stay in one state."""

    turn: int


@model
class Compiled(TurnResult):
    turn: int
    needs: tuple[OperatorNeed, ...]
    # Of the graph; what was prepared for another one must be prepared again.
    fingerprint: str = ""


@model
class SkippedCheckpoint:
    """A checkpoint that was set aside, and why."""

    epoch: Epoch
    reason: str


@model
class LoadPlanned(TurnResult):
    """What to start from, and what the first checkpoint then continues."""

    turn: int
    plan: LoadingPlan
    lineage: Lineage
    skipped: tuple[SkippedCheckpoint, ...] = ()
    # Of the graph that it was prepared for.
    fingerprint: str = ""
    # When the checkpoint that it starts from was taken.
    created_ms: int | None = None
    # What it ignores: as the job was told, or an earlier generation, as the store remembers.
    ignore_before: Generation = NO_GENERATION
    ignore_through: Epoch = NO_EPOCH
    identify_ms: float = 0.0
    prepare_ms: float = 0.0


@model
class SlotsGranted(TurnResult):
    turn: int


@model
class SlotsRefused(TurnResult):
    turn: int
    reason: str


@model
class GenerationClaimed(TurnResult):
    turn: int
    generation: Generation


@model
class WorkerStarted(TurnResult):
    """The process exists; it has not said anything yet."""

    turn: int
    generation: Generation


@model
class WorkersKilled(TurnResult):
    turn: int


@model
class ActionFailed(TurnResult):
    """An action of this turn did not succeed; `doing` says what was tried, for a person."""

    turn: int
    doing: str
    error: ErrorInfo


class CheckpointResult(ActionResult):
    """The result of a write of the checkpoint protocol."""

    generation: Generation
    epoch: Epoch


@model
class CheckpointRecorded(CheckpointResult):
    """The epoch record exists and names our checkpoint."""

    generation: Generation
    epoch: Epoch
    attempt: int


@model
class CheckpointSuperseded(CheckpointResult):
    """The epoch record is not ours, or the fence is past us: nothing of ours was published.

    `fence` is the highest generation claimed (at most ours = an older one took the epoch),
    `claimant` who claimed it.
    """

    generation: Generation
    epoch: Epoch
    attempt: int
    fence: Generation
    claimant: str = ""


@model
class AttemptTaken(CheckpointResult):
    """Other facts were written under this attempt: only the next attempt can succeed."""

    generation: Generation
    epoch: Epoch
    attempt: int


@model
class RecordFailed(CheckpointResult):
    """The write failed, and whether the record exists is not known: only repeating it tells."""

    generation: Generation
    epoch: Epoch
    attempt: int
    error: ErrorInfo


@model
class MarkerWritten(CheckpointResult):
    generation: Generation
    epoch: Epoch


@model
class MarkerFailed(CheckpointResult):
    generation: Generation
    epoch: Epoch
    error: ErrorInfo


@model
class SavepointWritten(CheckpointResult):
    generation: Generation
    epoch: Epoch
    name: str


@model
class SavepointFailed(CheckpointResult):
    generation: Generation
    epoch: Epoch
    name: str
    error: ErrorInfo


class CleanupResult(ActionResult):
    """The end of a cleanup, in whatever state the job is by then."""


@model
class CleanupDone(CleanupResult):
    objects_deleted: int = 0
    bytes_deleted: int = 0
    # False = its time was up; the next slice goes on where it stopped.
    finished: bool = True


@model
class CleanupFailed(CleanupResult):
    error: ErrorInfo


# ---- the fleet -------------------------------------------------------------------------------


@model
class WorkerExited(WorkerEvent):
    """The process of this generation is gone."""

    generation: Generation
    exit_code: int | None = None
    log_tail: str = ""


@model
class WorkerDisconnected(WorkerEvent):
    """The connection is gone. The process may live, and may come back: the heartbeat decides."""

    generation: Generation


Event = (
    Tick
    | TakenUp
    | StopRequested
    | RestartRequested
    | RescaleRequested
    | CheckpointRequested
    | SavepointRequested
    | Compiled
    | LoadPlanned
    | SlotsGranted
    | SlotsRefused
    | GenerationClaimed
    | WorkerStarted
    | WorkersKilled
    | ActionFailed
    | CheckpointRecorded
    | CheckpointSuperseded
    | AttemptTaken
    | RecordFailed
    | MarkerWritten
    | MarkerFailed
    | SavepointWritten
    | SavepointFailed
    | CleanupDone
    | CleanupFailed
    | Register
    | Restored
    | Heartbeat
    | ExecutorsChanged
    | SubtaskAcked
    | EpochCutDone
    | NothingToCheckpoint
    | SinkPublished
    | SourcesFinished
    | TaskFailed
    | WorkerStopped
    | WorkerExited
    | WorkerDisconnected
)

# No rule does anything with these, in no state: that the process exists is known from `Register`,
# and a connection that is gone is no failure before the heartbeat is late. Every other event is
# named by some rule (a test compares), so a new one cannot vanish in a group unnoticed.
IGNORED_EVERYWHERE = (WorkerStarted, WorkerDisconnected)
