"""An epoch of rows, staged as the tasks of a job do: each its share, in batches as of Spark."""

from __future__ import annotations

import pyarrow as pa

from headgate.connectors.base import Sink, StageContext
from headgate.core.checkpoint import StagedFile
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue
from headgate.testing.staging import SINK, MemoryWriter, StagedEpoch

# As many as Spark gives a Python worker at once.
BATCH_ROWS = 10_000


def stage_rows(
    sink: Sink, number: int, rows: pa.RecordBatch, *, job: JobId, subtasks: int, state: JsonValue
) -> StagedEpoch:
    """Stage rows, one subtask after the other, and prepare the commit of their epoch."""
    staged: list[StagedFile] = []
    stored: dict[str, bytes] = {}
    share = -(-rows.num_rows // subtasks)
    for subtask in range(subtasks):
        own = rows.slice(subtask * share, share)
        batches = [own.slice(at, BATCH_ROWS) for at in range(0, own.num_rows, BATCH_ROWS)]
        writer = MemoryWriter(subtask=subtask, epoch=number)
        context = StageContext(
            job=job,
            sink=SINK,
            epoch=Epoch(number),
            subtask=subtask,
            folder=f"staging/{number}/",
            name_prefix=f"{subtask:03}-{writer.attempt}-",
        )
        staged += sink.stage(context, iter(batches), writer)
        stored |= writer.stored
    commit, state = sink.prepare_commit(job, Epoch(number), staged, state)
    return StagedEpoch(sink, Epoch(number), staged, commit, state, stored, job)
