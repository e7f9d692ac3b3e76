"""What the connector tests share: a source to drain, a place to stage, a publish to interrupt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from headgate.connectors.base import Sink, Source, StageContext
from headgate.connectors.registry import connector
from headgate.core import failpoints
from headgate.core.checkpoint import StagedFile
from headgate.core.graph import Column, SinkSpec, SourceSpec
from headgate.core.ids import Epoch, JobId, OperatorId, Subtask
from headgate.core.model import JsonValue

JOB = JobId("job_a")
SINK = OperatorId("sink_1")


def columns(**types: str) -> tuple[Column, ...]:
    """Columns by name; a type that ends with `!` is NOT NULL."""
    return tuple(
        Column(name=name, type=kind.rstrip("!"), nullable=not kind.endswith("!"))
        for name, kind in types.items()
    )


def make_source(name: str, options: dict[str, Any], cols: tuple[Column, ...] = ()) -> Source:
    found = connector(name)
    normalized = found.validate("source", options, cols)
    return found.open_source(
        SourceSpec(table="t", connector=name, options=normalized, columns=cols or found.columns)
    )


def make_sink(
    name: str,
    options: dict[str, Any],
    cols: tuple[Column, ...] = (),
    *,
    primary_key: tuple[str, ...] = (),
    updating: bool = False,
) -> Sink:
    found = connector(name)
    return found.open_sink(
        SinkSpec(
            table="t",
            connector=name,
            options=found.validate("sink", options, cols),
            columns=cols,
            primary_key=primary_key,
            updating=updating,
        )
    )


def cut_positions(
    source: Source, sizes: Iterable[int], *, now_ms: int = 0, cuts_max: int = 1_000
) -> list[JsonValue]:
    """Cut a source until it says that it is finished; the last size repeats."""
    positions = [source.initial_position()]
    remaining = iter(sizes)
    size = 1
    for _ in range(cuts_max):
        size = next(remaining, size)
        cut = source.plan_cut(positions[-1], size, now_ms)
        if cut.end != positions[-1]:
            positions.append(cut.end)
        if cut.finished:
            return positions
    raise AssertionError(f"not finished after {cuts_max} cuts")


def read_all(
    spark: SparkSession, source: Source, positions: list[JsonValue], parallelism: int = 2
) -> list[Row]:
    """Read every cut, in one Spark job: a union keeps the order of its parts."""
    frames = [source.read(spark, start, end, parallelism) for start, end in pairwise(positions)]
    return reduce(DataFrame.union, frames).collect() if frames else []


@dataclass
class MemoryWriter:
    """A `StageWriter` that keeps what it is given."""

    subtask: int = 0
    epoch: int = 1
    stored: dict[str, bytes] = field(default_factory=dict)

    def write(
        self, suffix: str, data: bytes | pa.Buffer, rows: int, extra: dict[str, Any] | None = None
    ) -> StagedFile:
        payload = bytes(data)
        path = f"staging/{self.epoch}/{self.subtask:03}-7-{len(self.stored)}{suffix}"
        self.stored[path] = payload
        return StagedFile(
            path=path,
            bytes=len(payload),
            checksum=f"sha256:{hashlib.sha256(payload).hexdigest()}",
            rows=rows,
            subtask=Subtask(self.subtask),
            epoch=Epoch(self.epoch),
            extra=extra or {},
        )


@dataclass
class StagedEpoch:
    """An epoch of a sink: staged by some subtasks, ready to be published as often as wanted."""

    sink: Sink
    epoch: Epoch
    staged: list[StagedFile]
    commit: JsonValue
    stored: dict[str, bytes]

    def publish(self, job: JobId = JOB) -> None:
        self.sink.publish(
            job, self.epoch, self.staged, self.commit, lambda file: self.stored[file.path]
        )

    @property
    def bytes(self) -> bytes:
        return b"".join(self.stored[file.path] for file in self.staged)


def stage_epochs(
    sink: Sink, epochs: list[list[pa.RecordBatch]], *, first_epoch: int = 1
) -> list[StagedEpoch]:
    """Stage each epoch's batches, one subtask per batch, and chain the sink's state."""
    result = []
    state: JsonValue = None
    for number, batches in enumerate(epochs, first_epoch):
        staged: list[StagedFile] = []
        stored: dict[str, bytes] = {}
        for subtask, batch in enumerate(batches):
            writer = MemoryWriter(subtask=subtask, epoch=number)
            context = StageContext(
                job=JOB,
                sink=SINK,
                epoch=Epoch(number),
                subtask=subtask,
                folder=f"staging/{number}/",
                name_prefix="",
            )
            staged += sink.stage(context, iter([batch]), writer)
            stored |= writer.stored
        commit, state = sink.prepare_commit(JOB, Epoch(number), staged, state)
        result.append(StagedEpoch(sink, Epoch(number), staged, commit, stored))
    return result


def prepared_batches(sink: Sink, df: DataFrame) -> list[pa.RecordBatch]:
    """What `stage` is given for these rows."""
    table = sink.prepare(df).toArrow()
    return list(table.combine_chunks().to_batches())


def interrupt_publish(monkeypatch: Any, at: int, publish: Callable[[], None]) -> bool:
    """Publish, failing at the n-th passage between two files; whether it was reached."""
    monkeypatch.setattr(
        failpoints,
        "_process",
        failpoints.Failpoints.parse(f"worker.middle_of_publish=error@{at}"),
    )
    try:
        publish()
    except failpoints.InternalError:
        return True
    finally:
        monkeypatch.setattr(failpoints, "_process", failpoints.Failpoints())
    return False


def batch_of(**values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(values)


def lines(data: bytes) -> Iterator[str]:
    return iter(data.decode().splitlines())
