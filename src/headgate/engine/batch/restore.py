"""Phase 4 of a recovery: subtasks load their runs.

The loading plan becomes the first state version; then every run is fetched and verified by the
tasks that will need it, in parallel, so that the first micro-batch finds them on local disk.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from headgate.core.checkpoint import LoadingPlan, SubtaskLoad
from headgate.core.ids import OperatorId
from headgate.core.masters import is_local
from headgate.core.spark_errors import BatchFailed, error_of_task, guarded
from headgate.engine.batch.context import BatchContext, PipelineState
from headgate.engine.task.places import executor_host, table_io
from headgate.state.tables.version import decode_schema, version_from_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Homes = dict[tuple[OperatorId, int], str]


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
    """The function given to `mapInArrow`: one row with the host that has the files now."""

    context: BatchContext
    # What each task loads, pickled alone: it unpacks only its own.
    loads: dict[int, bytes]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        index = task.partitionId()
        for load in pickle.loads(self.loads[index]):
            _fetch(self.context, load)
        row = {"subtask": pa.array([index], pa.int32()), "host": [executor_host()]}
        yield pa.RecordBatch.from_pydict(row)


def _fetch(context: BatchContext, load: SubtaskLoad) -> None:
    """Have every run of a subtask in this machine's cache."""
    io = table_io(context, load.operator, int(load.subtask), "restore")
    for state in load.tables:
        schema = decode_schema(state.schema)
        for run in state.runs:
            io.open_run(state.name, run, schema)
        io.close_all(state.name)


def preload_runs(spark: SparkSession, context: BatchContext, plan: LoadingPlan) -> Homes:
    """Fetch and verify every run of the plan, where the tasks that need it will run.

    Returns the hosts that have them, by subtask: there they are wanted from now on. Raises the
    error of the damage if a run is not what it was.
    """
    loads = tuple(load for load in plan.subtasks if load.tables)
    n = context.parallelism
    if is_local(str(spark.sparkContext.master)):
        with ThreadPoolExecutor(n) as pool:
            for _ in pool.map(partial(_fetch, context), loads):
                pass
        return {}
    of_tasks: dict[int, list[SubtaskLoad]] = {task: [] for task in range(n)}
    for load in loads:
        of_tasks[load.subtask % n].append(load)
    preload = _Preload(context, {task: pickle.dumps(part) for task, part in of_tasks.items()})
    try:
        rows = spark.range(0, n, 1, n).mapInArrow(
            guarded(OperatorId("restore"), preload), "subtask int, host string"
        )
        hosts = {row.subtask: row.host for row in rows.collect() if row.host}
    except PySparkException as error:
        # What is wrong with a file must reach the controller: it then looks for another checkpoint.
        raise BatchFailed(error_of_task(error)) from error
    return {
        (load.operator, int(load.subtask)): hosts[load.subtask]
        for load in loads
        if load.subtask in hosts
    }
