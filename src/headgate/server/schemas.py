"""What requests say and what answers hold. Facts of the controller are passed on as they are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headgate.controller.rules.job_facts import RestartMode, StopMode
from headgate.controller.rules.notes import CheckpointNote, PhaseNote
from headgate.controller.store.history import Transition
from headgate.core.errors import ErrorInfo
from headgate.core.graph import PipelineGraph
from headgate.core.messages import Progress
from headgate.core.model import JsonValue
from headgate.core.names import RESERVED
from headgate.server.alarms import Alarm
from headgate.server.problems import Problem, SqlProblem
from headgate.server.telemetry import Sample
from headgate.state.recovery.verdict import Verdict

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}$"
# Operators are named by the planner.
OPERATOR = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}$"
# A pipeline's jobs get its name and a suffix.
PIPELINE = r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$"
DURATION = r"^(auto|\d{1,9}(\.\d{1,3})?\s{0,2}[a-z]{0,12})$"


def not_reserved(value: object) -> object:
    """Say why a name is refused; the pattern alone would not."""
    if isinstance(value, str) and value.startswith(RESERVED):
        raise ValueError(f"names that begin with '{RESERVED}' are reserved for Headgate's own")
    return value


PipelineName = Annotated[str, Field(pattern=PIPELINE), BeforeValidator(not_reserved)]
Name = Annotated[str, Field(pattern=NAME), BeforeValidator(not_reserved)]
OperatorName = Annotated[str, Field(pattern=OPERATOR)]
Parallelism = Annotated[int, Field(ge=1, le=10_000)]


class Request(BaseModel):
    """A body: what is not known is refused, and numbers are numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


# Relative paths are refused: this is for saying which absolute ones they would be.
Folder = Field(None, min_length=1, max_length=4096, description="Where the SQL's file is used.")


class PipelineText(Request):
    """The SQL of a pipeline, and the text of the Python file with its functions."""

    sql: str = Field(min_length=1)
    udf_source: str | None = None
    folder: str | None = Folder


class NewPipeline(PipelineText):
    name: PipelineName


class JobSettings(Request):
    """How to run a job; what is left out is as the service's settings say."""

    parallelism: Parallelism | None = None
    checkpoint_interval: Annotated[str, Field(pattern=DURATION)] | None = Field(
        None, description="`10s`, `500ms`, `0` = as often as possible, `auto`."
    )
    retained_checkpoints: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    restarts_max: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    max_batch_rows: Annotated[int, Field(ge=1, le=10**12)] | None = None
    package: str | None = Field(
        None,
        min_length=1,
        description="What executors get: an archive made by `headgate package`, on the host of the"
        " service.",
    )
    shared_paths: list[str] | None = Field(
        None,
        max_length=1_000,
        description="Folders that every host of the cluster sees under the same path.",
    )
    spark: dict[str, str] | None = None
    allow_drop_state: list[OperatorName] | None = Field(
        None,
        max_length=1_000,
        description="Operators whose state may be lost because the query changed.",
    )
    allow_skip_published: bool = Field(
        False,
        description="Go on although an epoch is damaged and its output may be missing or repeated."
        " Counts until the job is started again without it.",
    )


class NewJob(JobSettings):
    """A job of a stored pipeline, or (with `sql`) of one that is stored by this request."""

    pipeline: PipelineName
    sql: str | None = Field(None, min_length=1)
    udf_source: str | None = None
    folder: str | None = Folder
    replace: bool = Field(
        False, description="Change the stored text, if the pipeline is there with another one."
    )
    id: Name | None = Field(
        None, description="Default: the pipeline's name and something random behind it."
    )


class StopJob(Request):
    mode: StopMode = Field(
        "checkpoint",
        description="`checkpoint` = after a final one; `graceful` = after the micro-batch;"
        " `immediate`; `force` = kill.",
    )


class RestartJob(JobSettings):
    mode: RestartMode = Field(
        "safe",
        description="`safe` = with a final checkpoint; `forced` = from the last one;"
        " `ignore_state` = from nothing.",
    )
    update: bool = Field(False, description="Take the pipeline's text as it is stored now.")


class RestartVerdict(BaseModel):
    """What a restart would do with the job's state; `lines` say the same for a person."""

    verdict: Verdict
    lines: list[str]


class RescaleJob(Request):
    parallelism: Parallelism


class NewSavepoint(Request):
    name: Name


class ForkJob(NewJob):
    """A new job from an old checkpoint. Give it sinks of its own: their targets begin anew."""

    epoch: Annotated[int, Field(ge=1, le=2**53)] | None = Field(
        None, description="Default: the newest."
    )


class NewPreview(PipelineText):
    """A look at a query's first rows; nothing is written to its sinks."""

    rows_max: Annotated[int, Field(ge=1, le=10_000)] = 100
    seconds_max: Annotated[int, Field(ge=1, le=600)] = 60


# ---- answers ---------------------------------------------------------------------------------


class PipelineView(BaseModel):
    name: str
    sql: str
    udf_source: str | None
    created_ms: int
    updated_ms: int
    jobs: list[str]


class GraphView(BaseModel):
    graph: PipelineGraph
    # The tree that `headgate plan` shows.
    explained: str
    fingerprint: str


class Validation(BaseModel):
    """Whether the SQL would be accepted; `problem` says where it is wrong."""

    valid: bool
    problem: Problem | None = None
    plan: GraphView | None = None


class JobView(BaseModel):
    """A job as it is now. `doing` says where in its state it is, and what it waits for."""

    job: str
    pipeline: str
    state: str
    terminal: bool
    doing: str
    since_ms: int
    generation: int
    parallelism: int
    last_epoch: int
    committed_epoch: int
    checkpoint_in_flight: int | None
    restarts_used: int
    recoveries: int
    error: ErrorInfo | None
    progress: Progress | None
    driven_here: bool
    # Where it is driven: a URL, or a process that has none; None = nobody drives it.
    driven_by: str | None
    # When the worker said so. Of a job that another controller drives, `progress` is what that one
    # stored last.
    progress_at_ms: int | None
    node: str = Field(description="Where its worker runs; empty = beside the service.")
    alarms: list[Alarm]


class JobDetail(JobView):
    sql: str | None
    state_url: str
    checkpoint_interval_ms: int | Literal["auto"]
    retained_checkpoints: int
    restarts_max: int
    max_batch_rows: int
    spark: dict[str, str]
    allow_drop_state: list[str]
    allow_skip_published: bool
    # Of an error that Spark has raised about an expression: where that stands in the SQL.
    error_place: SqlProblem | None


class ControllerView(BaseModel):
    """A controller of the database. One that is `silent` loses its jobs when its leases run out."""

    instance: str
    # None = it has no service (`headgate run`).
    url: str | None
    host: str
    pid: int
    version: str
    started_ms: int
    # By the database's clock.
    seen_ms: int
    silent_ms: int
    silent: bool
    jobs: int
    # Whether it is the one that answers.
    here: bool


class JobError(BaseModel):
    at_ms: int
    generation: int
    # The state the job went into because of it.
    state: str
    error: ErrorInfo


class Recovery(BaseModel):
    """One recovery: why, its phases in order, and how long they took together."""

    number: int
    reason: str | None
    started_ms: int
    duration_ms: float
    complete: bool
    phases: list[PhaseNote]
    failure: Transition | None


class LogPage(BaseModel):
    """A piece of a worker's log. Ask again with `offset` = `next_offset` for what comes later."""

    generation: int
    generations: list[int]
    offset: int
    next_offset: int
    size: int
    text: str


class TableView(BaseModel):
    name: str
    kind: str
    rows: int
    runs: int
    bytes: int


class SubtaskView(BaseModel):
    subtask: int
    alignment_ms: float
    snapshot_ms: float
    upload_ms: float
    new_objects: int
    new_bytes: int
    staged_files: int
    staged_rows: int
    tables: list[TableView]


class OperatorView(BaseModel):
    operator: str
    kind: str
    watermark: int
    globals: dict[str, JsonValue]
    subtasks: list[SubtaskView]


class CheckpointSummary(BaseModel):
    epoch: int
    # As the object store has it: ready, committing, set_aside, ...; None = it was not asked.
    state: str | None
    savepoints: list[str]
    note: CheckpointNote | None


class CheckpointDetail(BaseModel):
    """`note` has the times as the controller measured them, the rest is read from storage."""

    epoch: int
    state: str
    reason: str | None
    savepoints: list[str]
    note: CheckpointNote | None
    generation: int | None = None
    attempt: int | None = None
    parallelism: int | None = None
    parent_epoch: int | None = None
    created_ms: int | None = None
    watermark: int | None = None
    micro_batches: int | None = None
    rows_read: int | None = None
    total_objects: int | None = None
    total_bytes: int | None = None
    total_rows: int | None = None
    new_objects: int | None = None
    new_bytes: int | None = None
    operators: list[OperatorView] = []


class SavepointView(BaseModel):
    name: str
    epoch: int
    generation: int
    created_ms: int


class SavepointAnswer(BaseModel):
    """`pending` = it was asked for, and is not there yet."""

    name: str
    pending: bool
    epoch: int | None = None


class JobMetrics(BaseModel):
    job: str
    checkpoints: int
    checkpoint_seconds_total: float
    aborts: int
    objects_written: int
    bytes_written: int
    rows_published: int
    objects_deleted: int
    bytes_deleted: int
    # How long checkpoints that were due waited for cleanups.
    held_up_seconds: float
    recoveries: int
    recovery_phase_seconds: dict[str, float]
    # The controller's requests to the object store, and those of the last whole epoch.
    store_requests: dict[str, int]
    epoch_requests: int
    epoch_bytes: int
    # The newest heartbeats, oldest first.
    samples: list[Sample]


PreviewState = Literal["starting", "running", "finished", "stopped", "failed"]


class PreviewView(BaseModel):
    """What a preview has shown so far. `starting`: Spark is; `stopped`: enough rows, or time."""

    id: str
    state: PreviewState
    done: bool
    error: ErrorInfo | None
    # Where in the SQL stands what Spark has refused.
    place: SqlProblem | None
    truncated: bool
    rows: list[JsonValue]
    # Read from the sources; those that could not be read were left out, and this is one.
    rows_read: int
    bad_rows: int
    bad_sample: str | None


class Health(BaseModel):
    status: Literal["ok"]
    version: str
    started_ms: int
    jobs: dict[str, int]
    slots: int | None
    slots_free: int | None
    warm_spares: int
    alarms: int
    # How long ago the database last heard of this controller.
    silent_ms: int
