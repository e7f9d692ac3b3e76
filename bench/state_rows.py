"""What Headgate answered: the published files of W1, the last checkpoint's state of W2."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import check
from bench.child import CORES, Task
from headgate.core.checkpoint import TableState
from headgate.core.graph import PipelineGraph
from headgate.core.ids import JobId
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.storage import job_folder, open_store


def checked(task: Task, graph: PipelineGraph, state_url: str, job: JobId) -> str:
    """Compare with the batch computation."""
    if task.query == "window":
        found = check.ordered(check.read_parquet_output(task.output), "window")
        return check.compare(found, check.expected_window(task.folder))
    found = check.ordered(counts_in_state(graph, state_url, job), "keyed")
    return check.compare(found, check.expected_keyed(task.folder))


def counts_in_state(graph: PipelineGraph, state_url: str, job: JobId) -> pa.Table:
    """Read (item, bids) from the Parquet runs of the newest checkpoint, without the engine."""
    backend = StateBackend(job_folder(open_store(state_url), job), job)
    prepared = backend.prepare_checkpoint_load(parallelism=CORES, graph=graph)
    if not isinstance(prepared, LoadPrepared):
        raise FileNotFoundError(f"no checkpoint of {job} in {state_url}")
    tables = [table for load in prepared.plan.subtasks for table in load.tables]
    return pa.concat_tables(
        [_newest_rows(Path(state_url) / job, table) for table in tables if table.runs]
    )


def _newest_rows(root: Path, table: TableState) -> pa.Table:
    """Return the live rows of one subtask: runs are oldest first, and the newest row of a key wins.

    `_rows` is the number of rows behind a key, which is what the query counts.
    """
    runs = [
        pq.read_table(root / run.path, columns=["item", "_rows", "_deleted"]) for run in table.runs
    ]
    grouped = pa.concat_tables(runs).group_by("item", use_threads=False)
    newest = grouped.aggregate([("_rows", "last"), ("_deleted", "last")])
    live = newest.filter(pc.invert(newest["_deleted_last"]))
    return live.select(["item", "_rows_last"]).rename_columns(["item", "bids"])
