"""Phase 4 of a recovery: subtasks load their runs.

The loading plan becomes the first state version; then every run is fetched and verified by the
tasks that will need it, in parallel, so that the first micro-batch finds them on local disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from headgate.core.checkpoint import LoadingPlan, SubtaskLoad
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import BatchFailed, error_of_task, guarded
from headgate.engine.batch.context import BatchContext, PipelineState
from headgate.engine.task.places import table_io
from headgate.state.tables.version import decode_schema, version_from_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def restored_state(plan: LoadingPlan) -> PipelineState:
    """Return the state version that the plan describes."""
    tables = {
        (load.operator, int(load.subtask)): tuple(
            version_from_state(state) for state in load.tables
        )
        for load in plan.subtasks
        if load.tables
    }
    return PipelineState(tables=tables)


@dataclass
class _Preload:
    context: BatchContext
    loads: tuple[SubtaskLoad, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for load in self.loads[task.partitionId() :: self.context.parallelism]:
            _fetch(self.context, load)
        return iter(())


def _fetch(context: BatchContext, load: SubtaskLoad) -> None:
    """Have every run of a subtask in this machine's cache."""
    io = table_io(context, load.operator, int(load.subtask), "restore")
    for state in load.tables:
        schema = decode_schema(state.schema)
        for run in state.runs:
            io.open_run(state.name, run, schema)
        io.close_all(state.name)


def preload_runs(spark: SparkSession, context: BatchContext, plan: LoadingPlan) -> None:
    """Fetch and verify every run of the plan, where the tasks that need it will run.

    Raises the error of the damage if a run is not what it was.
    """
    loads = tuple(load for load in plan.subtasks if load.tables)
    n = context.parallelism
    if str(spark.sparkContext.master).startswith("local"):
        with ThreadPoolExecutor(n) as pool:
            for _ in pool.map(partial(_fetch, context), loads):
                pass
        return
    rows = spark.range(0, n, 1, n)
    task = guarded(OperatorId("restore"), _Preload(context, loads))
    try:
        rows.mapInArrow(task, "done int").collect()
    except PySparkException as error:
        # What is wrong with a file must reach the controller: it then looks for another checkpoint.
        raise BatchFailed(error_of_task(error)) from error
