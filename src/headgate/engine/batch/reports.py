"""What subtasks tell the driver: a few values per subtask, never rows.

Reports travel in a Spark accumulator. A stage that reruns reports its subtasks again: entries are
keyed by (operator, subtask) and the latest attempt wins, which is right because every attempt
computes the same answer into files of its own; where that cannot be relied on, see `reruns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam

from headgate.core.checkpoint import StagedFile
from headgate.core.dropped import DroppedRow
from headgate.core.ids import OperatorId
from headgate.state.tables.version import TableVersion

if TYPE_CHECKING:
    import pyarrow as pa

ArrowTask = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@dataclass(frozen=True)
class BufferFile:
    """Output of a sink since the last barrier, not yet staged: an Arrow file in scratch."""

    path: str
    bytes: int
    rows: int
    # Who wrote it. The same one stages it: changes of one key must stay in order.
    subtask: int = 0


@dataclass(frozen=True)
class SubtaskReport:
    operator: OperatorId
    subtask: int
    # The micro-batch it belongs to: a straggler of an aborted action must not be mistaken.
    batch: int
    # Spark's number of the task that tells it, which no other has.
    task: int = -1
    # The host it ran on, as Spark calls it; empty on a local master.
    host: str = ""
    # Whether another task has told it before.
    again: bool = False
    tables: tuple[TableVersion, ...] = ()
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    # Examples of them.
    late: tuple[DroppedRow, ...] = ()
    # The earliest event time (microseconds) at which the subtask has something to emit.
    next_timer: int | None = None
    # Sinks: what was buffered, what was staged, and which buffers that consumed.
    buffered: tuple[BufferFile, ...] = ()
    staged: tuple[StagedFile, ...] = ()
    consumed: tuple[str, ...] = ()
    new_objects: int = 0
    new_bytes: int = 0
    timings: dict[str, float] = field(default_factory=dict)


Reports = dict[tuple[OperatorId, int], SubtaskReport]


class ReportsParam(AccumulatorParam[Reports]):
    """A dictionary in which the later entry wins, and knows that it is not the first."""

    def zero(self, value: Reports) -> Reports:
        return {}

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802
        for key, report in value2.items():
            earlier = value1.get(key)
            if earlier is not None and earlier.batch == report.batch:
                report = replace(report, again=earlier.again or earlier.task != report.task)
            value1[key] = report
        return value1
