"""The contracts of a source, of a sink and of lookup tables.

A source has replayable positions: JSON values that only the source understands. The driver asks
for a cut (`plan_cut`), which fixes the end position *before* anything is read; `read` of the same
two positions gives the same rows every time, in the order of the source.

A sink stages, then publishes. Inside a micro-batch each subtask turns its Arrow batches into
durable staged files that nobody else can see. After the epoch record exists, the driver calls
`publish` on what the checkpoint names. Publishing is idempotent by (job, sink, epoch) in the
target system itself, so a recovery or a zombie may repeat it without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headgate.core.checkpoint import StagedFile
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.model import JsonValue, model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@model
class SourceCut:
    """Where the next micro-batch ends. `end` equal to the start position means: nothing to read."""

    end: JsonValue
    # Rows between start and end, estimated if the source cannot know.
    rows: int
    # Rows known to be waiting behind `end`; None if unknown.
    lag_rows: int | None = None
    # The same for each part of the source (a partition of a topic), by its name; empty if unknown.
    lags: dict[str, int] = {}  # noqa: RUF012
    # The source has no more rows after `end`, for ever.
    finished: bool = False
    # What leads from the start to `end`, if that is much smaller than a position: the checkpoint
    # keeps it of every micro-batch, in place of the two positions. See `SteppingSource`.
    step: JsonValue = None


@model
class KnownRows:
    """What a source can tell about the rows between two positions before they are read."""

    rows: int
    # The greatest time of the asked column, in microseconds; None if it has no value at all.
    latest_us: int | None


class Source(Protocol):
    """Driver-side half of a source; built once per generation by the connector."""

    def initial_position(self) -> JsonValue:
        """Return the position before the first row."""

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        """Choose where the next micro-batch ends. Reads metadata only, never blocks on data."""

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        """Return the rows in [start, end) as `spec.columns` (typed) plus the metadata columns.

        Deterministic: the same positions give the same rows. Bad rows are handled here, as
        `bad_data` says: `fail` raises `BadDataError` inside the task, `drop` leaves them out and
        reports them through the hidden boolean column `_bad` = true on a row of nulls, which the
        engine counts and drops; `_bad_sample` beside it has the start of the row's text. The two
        columns are present only if bad rows are possible.
        """


@runtime_checkable
class KnowingSource(Source, Protocol):
    """A source that may know its rows' number and greatest time, so that nobody need look."""

    def known(self, start: JsonValue, end: JsonValue, column: str) -> KnownRows | None:
        """Return what is known of the rows in [start, end), exactly; None if something is not.

        None of those rows may turn out to be bad.
        """


@model
class BadRow:
    """A row that could not be read: where it is, what is wrong with it, and its text."""

    # `orders.json:17 (byte 1234)`, `topic/0@99`; empty if it is not known.
    position: str
    # Empty if nothing wrong was found.
    reason: str
    raw: str


class RowJudge(Protocol):
    """Says what is wrong with bad rows. Pickled into tasks; slow, and asked for nothing else."""

    def __call__(self, raw: str, position: str) -> BadRow:
        """Explain a row from its `BAD_RAW_COLUMN` and `BAD_POSITION_COLUMN`.

        Deterministic: a replay says the same of the same row.
        """


@runtime_checkable
class ExplainingSource(Source, Protocol):
    """A source that can say where a bad row is and what is wrong with it.

    With a `bad_data` that is neither 'fail' nor 'drop', the name of a dead-letter table, `read`
    adds `BAD_RAW_COLUMN` and `BAD_POSITION_COLUMN` to `BAD_COLUMN`, null for rows that are good.
    """

    def judge(self) -> RowJudge:
        """Return what explains the bad rows that `read` has marked."""

    def find_bad(self, start: JsonValue, end: JsonValue, sample: str) -> BadRow | None:
        """On the driver: look again for the row whose text, as Spark had it, begins so.

        None if it is not found within reason: this is for people, and after the fact.
        """


@runtime_checkable
class SteppingSource(Source, Protocol):
    """A source whose positions are large, and whose cuts say what one adds to the other."""

    def position_after(self, position: JsonValue, step: JsonValue) -> JsonValue:
        """Return exactly the `end` of the cut that `plan_cut` made at `position` with this step."""


@runtime_checkable
class WatchedSource(Source, Protocol):
    """A source whose system shows people how far its readers are."""

    def checkpointed(self, position: JsonValue) -> None:
        """Show this position: its checkpoint is recorded. Nothing is ever read from what is shown.

        Called beside the micro-batches, not for every checkpoint, and again after a recovery. An
        `ExternalError` is logged, and the next checkpoint shows its own.
        """


class Lookup(Protocol):
    """Driver-side half of a lookup table: rows that a stream is joined with, by primary key."""

    def version(self) -> str:
        """Return a text that is another one when the rows may be others. Reads metadata only."""

    def read(self, spark: SparkSession, parallelism: int) -> DataFrame:
        """Return all rows as `spec.columns`. Called once per version, not once per micro-batch.

        Nothing is replayed: rows read later may differ, and a micro-batch that runs again after a
        failure sees those.
        """


@model
class LookupCache:
    """What each of Spark's Python workers may keep of the answers of a lookup table."""

    bytes_max: int
    # How long a row is kept, and that there is none; 0 = not at all.
    ttl_ms: int


@runtime_checkable
class KeyedLookup(Protocol):
    """A lookup table that is asked for the keys of a micro-batch and not read whole.

    Pickled into tasks for `find`. Its constructor must not open connections. It is opened on the
    driver, where the environment of the job is: secrets are looked up there.
    """

    @property
    def cache(self) -> LookupCache:
        """What may be kept of the answers. The engine keeps it."""

    def check(self) -> None:
        """On the driver, before the first micro-batch: raise `UserError` if it cannot be asked."""

    def find(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return the rows of these keys, in any order, as `schema`: the table's columns.

        `keys` has the columns of the primary key; its rows are distinct, and none has a null. A key
        without a row is left out. All rows of a key are returned: more than one are the engine's
        error. Called in tasks, many times by one process: connections may be kept.
        """


# Asks another system a small question, and raises `ExternalError` or `UserError` if it does not
# answer. Pickled into a task.
ReachCheck = Callable[[], None]


@runtime_checkable
class ReachedInTasks(Protocol):
    """A source, sink or lookup table whose system is asked by Spark's tasks, not only the driver.

    On a cluster one task on every executor runs its check before the executor may work: with the
    network, the environment and the credentials of that host.
    """

    def reach_check(self) -> ReachCheck | None:
        """On the driver: return the check; None if no task of this table asks anything.

        It can be pickled, changes nothing, and gives up after some ten seconds. It may run before
        the target was looked at and created.
        """


# Hidden columns that `read` may add to the table's own.
#
# The row's own event time, if the connector knows one (impulse, nexmark). The engine takes it
# if the table names no other; the column is there for every row or for none.
EVENT_TIME_COLUMN = "_event_time"
# True on a row of nulls that stands for a row that could not be read, and the start of its text.
BAD_COLUMN = "_bad"
BAD_SAMPLE_COLUMN = "_bad_sample"
# The whole text of a bad row and its place, in the words of the source's `RowJudge`: only where a
# dead-letter table wants them.
BAD_RAW_COLUMN = "_bad_raw"
BAD_POSITION_COLUMN = "_bad_position"


@model
class StageContext:
    """Where a sink subtask stages: unique names are the caller's promise, via `name_prefix`."""

    job: JobId
    sink: OperatorId
    epoch: Epoch
    subtask: int
    # Relative to the job's folder: "generations/3/staging/<sink>/0000007/".
    folder: str
    # Starts every file name; unique per attempt of the task.
    name_prefix: str


class StageWriter(Protocol):
    """Makes bytes durable under the staging folder and remembers them. Given by the engine."""

    def write(
        self, suffix: str, data: bytes | pa.Buffer, rows: int, extra: dict[str, Any] | None = None
    ) -> StagedFile:
        """Store one staged file `{folder}{name_prefix}{counter}{suffix}`."""


class Sink(Protocol):
    """A sink. Pickled into tasks for `stage`; `prepare_commit` and `publish` run in the driver.

    Its constructor must not open connections: they are opened where they are used.
    """

    def prepare(self, df: DataFrame) -> DataFrame:
        """Shape the rows on the JVM before they are staged; most sinks return `df` itself.

        Called once per micro-batch with every column of the input, `_op` of an updating stream
        included; must be a plan over `df` and nothing else. `stage` gets what it returns.
        """

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        """Turn the subtask's rows of the epoch into staged files. Runs inside a Spark task.

        The engine calls it once per epoch with all rows of the epoch, or more often, with the rows
        so far, if they outgrow its buffer. At-least-once sinks write directly and return [].
        """

    def prepare_commit(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        """Return (commit data, new sink state) at the barrier: both are stored in the checkpoint.

        `state` is what the last checkpoint stored, None at the start. Deterministic, no effects.
        """

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: Callable[[StagedFile], bytes],
    ) -> None:
        """Make the epoch's output visible. Idempotent; may be called again for any older epoch."""

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        """Before anything runs: raise `UserError` if the target cannot be used by this job."""


@runtime_checkable
class NamedSink(Sink, Protocol):
    """A sink that must know its name in the job: two INSERTs into one table are two sinks."""

    def set_operator(self, operator: OperatorId) -> None:
        """Called once, right after the sink was opened."""


@runtime_checkable
class SpreadSink(Sink, Protocol):
    """A sink that can publish in Spark's tasks: an epoch may be more than one process can write."""

    def set_session(self, spark: SparkSession) -> None:
        """Called once, before the first publish.

        `publish` may run jobs on the session, beside the micro-batches, and `read_staged` can be
        pickled into their tasks.
        """


@runtime_checkable
class FencedSink(Sink, Protocol):
    """A sink that must know its generation, because it empties its target or writes over it.

    A worker that was thought dead may call `check_target` long after its successor has published.
    """

    def set_generation(self, generation: Generation) -> None:
        """Called before `check_target`: nothing that a later generation has begun may be harmed."""
