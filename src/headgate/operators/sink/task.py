"""The sink's part of a micro-batch: buffer until the barrier, then stage.

Between barriers the rows of a subtask wait in an Arrow file in scratch, so that a checkpoint has
one staged file per subtask however many micro-batches its epoch had. Output that outgrows the
buffer is staged at once. Staged files are durable and invisible: nothing is published here.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from headgate.connectors.base import Sink, StageContext
from headgate.core.checkpoint import StagedFile
from headgate.core.failpoints import failpoint
from headgate.core.ids import OperatorId, Subtask
from headgate.core.ports import ObjectStore
from headgate.engine.batch.context import BatchContext
from headgate.engine.batch.reports import BufferFile, Reports, SubtaskReport
from headgate.engine.task.conform import conformed
from headgate.engine.task.places import job_store, table_io
from headgate.state.protocol.layout import staging_folder
from headgate.state.tables.scratch import Scratch, file_name, folder_name

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

# Where the buffers of a sink are among the tables of other operators.
BUFFERS = "buffers"
BUFFER_BYTES_MAX = 64 * 1024 * 1024


@dataclass
class StoreWriter:
    """`StageWriter` on the job's object store."""

    store: ObjectStore
    context: StageContext
    written: int = 0
    upload_ms: float = 0.0

    def write(
        self, suffix: str, data: bytes | pa.Buffer, rows: int, extra: dict[str, Any] | None = None
    ) -> StagedFile:
        payload = data if isinstance(data, bytes) else data.to_pybytes()
        path = f"{self.context.folder}{self.context.name_prefix}{self.written}{suffix}"
        self.written += 1
        started = time.perf_counter()
        self.store.put(path, payload)
        self.upload_ms += (time.perf_counter() - started) * 1000
        return StagedFile(
            path=path,
            bytes=len(payload),
            checksum=f"sha256:{hashlib.sha256(payload).hexdigest()}",
            rows=rows,
            subtask=Subtask(self.context.subtask),
            epoch=self.context.epoch,
            extra=extra or {},
        )


@dataclass
class SinkSubtask:
    """The function given to `mapInArrow`; yields no rows."""

    context: BatchContext
    operator: OperatorId
    sink: Sink
    buffers: tuple[BufferFile, ...]
    schema: pa.Schema
    reports: Accumulator[Reports]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spark_task = TaskContext.get()
        assert spark_task is not None
        index = spark_task.partitionId()
        attempt = f"{self.context.batch:06}-{spark_task.taskAttemptId()}"
        rows = [conformed(batch, self.schema) for batch in batches if batch.num_rows]
        count = sum(batch.num_rows for batch in rows)
        # Each of the first subtasks stages what it buffered itself: changes of one key stay in
        # order. What a subtask beyond them buffered is folded onto them.
        mine = tuple(b for b in self.buffers if b.subtask % self.context.parallelism == index)
        report = SubtaskReport(
            operator=self.operator,
            subtask=index,
            batch=self.context.batch,
            task=spark_task.taskAttemptId(),
            rows_in=count,
            rows_out=count,
        )
        if self.context.suppress_output:
            rows, mine = [], ()
        scratch = table_io(self.context, self.operator, index, attempt).scratch
        scratch.keep_only(folder_name(self.operator, BUFFERS, index), [b.path for b in mine])
        size = sum(batch.nbytes for batch in rows)
        failpoint("sink_task.before_write")
        if self.context.barrier or size + sum(b.bytes for b in mine) > BUFFER_BYTES_MAX:
            report = self._staged(report, index, attempt, rows, mine, scratch)
        elif rows:
            report = self._buffered(report, index, attempt, rows, scratch)
        failpoint("sink_task.after_write")
        self.reports.add({(self.operator, index): report})
        return iter(())

    def _staged(
        self,
        report: SubtaskReport,
        index: int,
        attempt: str,
        rows: list[pa.RecordBatch],
        mine: tuple[BufferFile, ...],
        scratch: Scratch,
    ) -> SubtaskReport:
        if not rows and not mine:
            return report
        stage = StageContext(
            job=self.context.job,
            sink=self.operator,
            epoch=self.context.epoch,
            subtask=index,
            folder=staging_folder(self.context.generation, self.operator, self.context.epoch),
            name_prefix=f"{index:03}-{attempt}-",
        )
        writer = StoreWriter(job_store(self.context.state_url, self.context.job), stage)
        started = time.perf_counter()
        staged = self.sink.stage(stage, _replayed(scratch, mine, rows), writer)
        elapsed_ms = (time.perf_counter() - started) * 1000
        return replace(
            report,
            staged=tuple(staged),
            consumed=tuple(b.path for b in mine),
            new_objects=len(staged),
            new_bytes=sum(s.bytes for s in staged),
            timings={
                "snapshot_ms": elapsed_ms - writer.upload_ms,
                "upload_ms": writer.upload_ms,
            },
        )

    def _buffered(
        self,
        report: SubtaskReport,
        index: int,
        attempt: str,
        rows: list[pa.RecordBatch],
        scratch: Scratch,
    ) -> SubtaskReport:
        epoch, batch = self.context.epoch, self.context.batch
        name = file_name(self.operator, BUFFERS, index, epoch=epoch, batch=batch, attempt=attempt)
        path, size = scratch.write(name, rows)
        buffered = BufferFile(path, size, sum(b.num_rows for b in rows), index)
        return replace(report, buffered=(buffered,))


def _replayed(
    scratch: Scratch, buffers: tuple[BufferFile, ...], rows: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the buffered batches, oldest first, then the new ones."""
    for buffer in buffers:
        with pa.ipc.open_file(scratch.map(buffer.path)) as reader:
            for position in range(reader.num_record_batches):
                yield reader.get_batch(position)
    yield from rows
