"""What controller and worker say to each other. One JSON object per line, each way.

Every message of a worker carries its generation; the controller refuses those of another one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headgate.core.checkpoint import EpochCut, LoadingPlan, OperatorProgress, SinkCommit, SubtaskAck
from headgate.core.dropped import DroppedRow
from headgate.core.errors import ErrorInfo
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch, Generation, JobId, OperatorId, WorkerId
from headgate.core.model import model


@model
class RunSettings:
    """What a worker needs to know beyond the graph."""

    state_url: str
    # Of the driver's machine; removed with the generation.
    scratch_dir: str
    # A folder that all executors see, for what waits for its barrier; empty = on one machine
    # `scratch_dir`, elsewhere the state store.
    scratch_url: str = ""
    master: str = "local[*]"
    max_batch_rows: int = 1_000_000
    source_idle_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    verify_checksums: bool = True
    # Local copies of Parquet runs, on each host.
    cache_dir: str | None = None
    cache_bytes_max: int = 8 << 30
    spark_conf: dict[str, str] = {}  # noqa: RUF012


# What a worker process finds in its environment: its generation's token, and `SpareSettings` as
# JSON. They are no arguments because settings may hold secrets.
TOKEN_VARIABLE = "HEADGATE_WORKER_TOKEN"
SPARK_VARIABLE = "HEADGATE_WORKER_SPARK"


@model
class SpareSettings:
    """What a worker starts its Spark session with, before it knows its job."""

    master: str
    parallelism: int
    spark_conf: dict[str, str] = {}  # noqa: RUF012
    scratch_dir: str = ""
    # What the session is called on a cluster.
    app_name: str = "headgate"

    def fits(self, other: SpareSettings) -> bool:
        """Whether a spare for `other` can be used: what a JVM is started with is the same.

        The parallelism may differ: the session is then started anew, in the JVM that is there.
        """
        return (self.master, self.spark_conf) == (other.master, other.spark_conf)


@model
class Assignment:
    """Said to a spare worker on its standard input: whose worker it is from now on."""

    job: JobId
    generation: Generation
    token: str


# ---- worker -> controller --------------------------------------------------------------------


class WorkerEvent:
    """What a worker says, or what is seen of its process: it belongs to that generation."""

    generation: Generation


@model
class Register(WorkerEvent):
    kind: Literal["register"] = "register"
    job: JobId
    generation: Generation
    worker: WorkerId
    token: str
    pid: int
    host: str
    # The node that it runs on, as the controller knows it; empty = the controller's machine.
    node: str = ""


@model
class Restored(WorkerEvent):
    """Phase 4 is over: tables are loaded, unfinished publishes are replayed."""

    kind: Literal["restored"] = "restored"
    generation: Generation
    # Phase name -> milliseconds, for the job's history (start_spark, restore, replay, publish).
    timings: dict[str, float] = {}  # noqa: RUF012


@model
class Progress:
    """What the job has done in all its life, and gauges.

    Rows are counted on from the checkpoint that a generation resumes from: what an earlier one did
    after that is done again, and counted then. Micro-batches are those of the generation.
    """

    batches: int = 0
    # What cannot go on without: cores of a cluster that is full. Empty = nothing.
    waiting_for: str = ""
    # Nothing has changed since the last checkpoint, so there is nothing to make the next one of.
    is_idle: bool = False
    # Micro-batches that were run again because Spark lost an executor in them.
    batches_repeated: int = 0
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    rows_bad: int = 0
    # The text of one row that could not be read.
    bad_sample: str | None = None
    # A few of the rows that were left out, of each operator and cause.
    dropped: tuple[DroppedRow, ...] = ()
    watermark: int | None = None
    # Rows known to be waiting; None if a source cannot say.
    lag_rows: int | None = None
    # The same by parts of a source (partitions of a topic), of sources that have any.
    lags: dict[OperatorId, dict[str, int]] = {}  # noqa: RUF012
    # How long the micro-batch has run that runs as this is said; 0 = none does.
    batch_running_ms: float = 0.0
    last_batch_ms: float = 0.0
    last_batch_rows: int = 0
    # Where the last micro-batch's time went, in milliseconds: building the plan, running it in
    # Spark, and of that the slowest subtask's work on state and its writing to the store.
    timings: dict[str, float] = {}  # noqa: RUF012
    operators: dict[OperatorId, OperatorProgress] = {}  # noqa: RUF012
    # Spark's executors that work for the job; None on a local master, which has none.
    executors: int | None = None


@model
class Heartbeat(WorkerEvent):
    kind: Literal["heartbeat"] = "heartbeat"
    generation: Generation
    progress: Progress


@model
class ExecutorInfo:
    """One of Spark's executors."""

    id: str
    host: str
    cores: int = 0


@model
class ExecutorLost:
    executor: ExecutorInfo
    # In Spark's words.
    reason: str


@model
class ExecutorRefused:
    """An executor that was sent away: what it lacks, each with the remedy."""

    executor: ExecutorInfo
    findings: tuple[str, ...]


@model
class ExecutorsChanged(WorkerEvent):
    """Executors came or went. Said on a cluster only, before the micro-batch that follows."""

    kind: Literal["executors_changed"] = "executors_changed"
    generation: Generation
    joined: tuple[ExecutorInfo, ...] = ()
    lost: tuple[ExecutorLost, ...] = ()
    refused: tuple[ExecutorRefused, ...] = ()
    # How many there are now.
    executors: int


@model
class SubtaskAcked(WorkerEvent):
    kind: Literal["subtask_acked"] = "subtask_acked"
    generation: Generation
    epoch: Epoch
    attempt: int
    ack: SubtaskAck


@model
class EpochCutDone(WorkerEvent):
    """The driver's own part of a checkpoint: the cuts and the watermark."""

    kind: Literal["epoch_cut"] = "epoch_cut"
    generation: Generation
    epoch: Epoch
    attempt: int
    cut: EpochCut


@model
class NothingToCheckpoint(WorkerEvent):
    """The answer to a barrier that may be skipped, if nothing has changed since the last epoch.

    Nothing was cut and nothing written: the epoch is still to come.
    """

    kind: Literal["nothing_to_checkpoint"] = "nothing_to_checkpoint"
    generation: Generation
    epoch: Epoch
    attempt: int


@model
class SinkPublished(WorkerEvent):
    kind: Literal["sink_published"] = "sink_published"
    generation: Generation
    epoch: Epoch
    operator: OperatorId


@model
class SourcesFinished(WorkerEvent):
    """Every source has ended and everything open has been emitted: only a checkpoint is missing."""

    kind: Literal["sources_finished"] = "sources_finished"
    generation: Generation


@model
class TaskFailed(WorkerEvent):
    kind: Literal["task_failed"] = "task_failed"
    generation: Generation
    error: ErrorInfo


@model
class WorkerStopped(WorkerEvent):
    """The worker ends by itself, as it was told to."""

    kind: Literal["worker_stopped"] = "worker_stopped"
    generation: Generation


WorkerMessage = Annotated[
    Register
    | Restored
    | Heartbeat
    | ExecutorsChanged
    | SubtaskAcked
    | EpochCutDone
    | NothingToCheckpoint
    | SinkPublished
    | SourcesFinished
    | TaskFailed
    | WorkerStopped,
    Field(discriminator="kind"),
]

# ---- controller -> worker --------------------------------------------------------------------


@model
class Start:
    kind: Literal["start"] = "start"
    job: JobId
    generation: Generation
    parallelism: int
    graph: PipelineGraph
    plan: LoadingPlan
    settings: RunSettings


@model
class Barrier:
    """Cut every source now: the micro-batch that follows is the last of `epoch`.

    Epoch records are a log without gaps, so a checkpoint that was aborted is tried again under the
    same epoch with the next `attempt`; acknowledgements name the attempt they belong to. What an
    aborted attempt had cut and staged is part of the next one.
    With `then_stop` no further input is read; the worker waits for `Commit` and then `Stop`.
    With `may_skip` a worker for which nothing has changed answers `NothingToCheckpoint` instead.
    """

    kind: Literal["barrier"] = "barrier"
    generation: Generation
    epoch: Epoch
    attempt: int
    then_stop: bool = False
    may_skip: bool = False


@model
class Commit:
    """The epoch record exists: publish what it names. Sent for every recorded epoch."""

    kind: Literal["commit"] = "commit"
    generation: Generation
    epoch: Epoch
    sinks: tuple[SinkCommit, ...] = ()


@model
class Stop:
    """End after the running micro-batch. A worker that takes too long is killed."""

    kind: Literal["stop"] = "stop"
    generation: Generation


ControllerMessage = Annotated[Start | Barrier | Commit | Stop, Field(discriminator="kind")]
