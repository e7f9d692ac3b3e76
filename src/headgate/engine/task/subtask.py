"""One subtask of one stateful operator in one micro-batch, inside a Spark task.

It runs only when every upstream partition has delivered all its rows before the cut: Spark's stage
boundary. That is the barrier alignment of Chandy and Lamport, with the marker at the end of each
shuffle partition; so when `context.barrier` is set, the tables it finishes are exactly the state
after every row of the epoch and before any row of the next.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark import TaskContext

from headgate.core.checkpoint import WATERMARK_MAX
from headgate.core.dropped import EXAMPLES_MAX, DroppedRow, shortened
from headgate.core.failpoints import failpoint
from headgate.core.ids import OperatorId
from headgate.engine.batch.context import BatchContext
from headgate.engine.batch.reports import Reports, SubtaskReport
from headgate.engine.task.places import executor_host, table_io
from headgate.state.tables import KeyedTable, MultiTable, TableIo, TimeTable
from headgate.state.tables.io import WriteStats
from headgate.state.tables.time_table import MergeRows
from headgate.state.tables.version import TableVersion

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

StateTable = TimeTable | KeyedTable | MultiTable


class OperatorTask(Protocol):
    """What an operator does with its rows and its tables. Must be picklable."""

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume all input, update tables obtained from `subtask`, yield the output."""


@dataclass(frozen=True)
class LateRow:
    """A row that came after what it belongs to had been emitted."""

    time_us: int
    late_us: int | None
    keys: dict[str, object]

    def dropped(self, operator: OperatorId) -> DroppedRow:
        values = ", ".join(f"{name} = {value}" for name, value in self.keys.items())
        return DroppedRow(
            operator=operator,
            why="late",
            raw=shortened(values),
            time_us=self.time_us,
            late_us=self.late_us,
        )


@dataclass
class Subtask:
    """What an operator may use: its context, its tables, and counters for the report."""

    context: BatchContext
    io: TableIo
    versions: dict[str, TableVersion]
    tables: list[StateTable] = field(default_factory=list)
    rows_late: int = 0
    # Examples of them, few: see `note_late`.
    late: list[LateRow] = field(default_factory=list)
    next_timer: int | None = None
    # For what is said of it.
    operator: OperatorId | None = None

    def note_late(
        self, rows: pa.Table, keys: Sequence[str], time: str, end: Callable[[int], int]
    ) -> None:
        """Keep a few of the rows that are late, as examples.

        `time` is the column with their time; `end` gives the time up to which it would have been
        in time: the watermark had passed that.
        """
        for row in rows.slice(0, EXAMPLES_MAX - len(self.late)).select([*keys, time]).to_pylist():
            at = row.pop(time)
            emitted = self.context.emitted_watermark
            # After the end of all data nothing is late by any length of time.
            late_us = None if emitted >= WATERMARK_MAX else emitted - end(at)
            self.late.append(LateRow(at, late_us, row))

    def time_table(self, name: str, schema: pa.Schema, merge: MergeRows | None = None) -> TimeTable:
        table = TimeTable.open(self.io, self.versions.get(name), schema, name=name, merge=merge)
        self.tables.append(table)
        return table

    def keyed_table(self, name: str, schema: pa.Schema, keys: list[str]) -> KeyedTable:
        table = KeyedTable.open(self.io, self.versions.get(name), schema, keys, name=name)
        self.tables.append(table)
        return table

    def multi_table(self, name: str, schema: pa.Schema, keys: list[str]) -> MultiTable:
        table = MultiTable.open(self.io, self.versions.get(name), schema, keys, name=name)
        self.tables.append(table)
        return table


@dataclass
class StatefulSubtask:
    """The function given to `mapInArrow`."""

    context: BatchContext
    operator: OperatorId
    # Of every subtask, each pickled alone: a task unpacks only its own.
    versions: dict[int, bytes]
    reports: Accumulator[Reports]
    task: OperatorTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spark_task = TaskContext.get()
        assert spark_task is not None
        index = spark_task.partitionId()
        attempt = f"{self.context.batch:06}-{spark_task.taskAttemptId()}"
        subtask = Subtask(
            context=self.context,
            io=table_io(self.context, self.operator, index, attempt),
            versions=self._versions_of(index),
            operator=self.operator,
        )
        counted = _Counted(batches)
        started = time.perf_counter()
        rows_out = 0
        for batch in self.task.run(subtask, counted):
            rows_out += batch.num_rows
            yield batch
        computed = time.perf_counter()
        failpoint("task.before_write")
        versions, written = self._finish_tables(subtask)
        finished = time.perf_counter()
        failpoint("task.after_write")
        report = SubtaskReport(
            operator=self.operator,
            subtask=index,
            batch=self.context.batch,
            task=spark_task.taskAttemptId(),
            host=executor_host(),
            tables=versions,
            rows_in=counted.rows,
            rows_out=rows_out,
            rows_late=subtask.rows_late,
            late=tuple(row.dropped(self.operator) for row in subtask.late),
            next_timer=subtask.next_timer,
            new_objects=written.objects,
            new_bytes=written.bytes,
            timings={
                "compute_ms": (computed - started - counted.waited) * 1000,
                "alignment_ms": counted.waited * 1000,
                "snapshot_ms": (finished - computed) * 1000 - written.upload_ms,
                "upload_ms": written.upload_ms,
            },
        )
        self.reports.add({(self.operator, index): report})

    def _versions_of(self, index: int) -> dict[str, TableVersion]:
        if index not in self.versions:
            return {}
        versions: tuple[TableVersion, ...] = pickle.loads(self.versions[index])
        return {version.name: version for version in versions}

    def _finish_tables(self, subtask: Subtask) -> tuple[tuple[TableVersion, ...], WriteStats]:
        versions: list[TableVersion] = []
        written = WriteStats()
        for table in subtask.tables:
            if self.context.barrier:
                version, stats = table.finish_epoch(self.context.epoch)
                written += stats
            else:
                version = table.finish_batch(self.context.epoch, self.context.batch)
            versions.append(version)
        return tuple(versions), written


class _Counted:
    """Counts rows, and the time spent waiting for them."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0
        self.waited = 0.0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        started = time.perf_counter()
        try:
            batch = next(self._batches)
        finally:
            self.waited += time.perf_counter() - started
        self.rows += batch.num_rows
        return batch
