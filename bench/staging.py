"""An epoch of rows, staged as the tasks of a job do: each its share, in batches as of Spark."""

from __future__ import annotations

import pyarrow as pa

from headgate.connectors.base import Sink
from headgate.core.ids import JobId
from headgate.core.model import JsonValue
from headgate.testing.staging import StagedEpoch, stage_shares

# As many as Spark gives a Python worker at once.
BATCH_ROWS = 10_000


def stage_rows(
    sink: Sink, number: int, rows: pa.RecordBatch, *, job: JobId, subtasks: int, state: JsonValue
) -> StagedEpoch:
    """Stage rows, one subtask after the other, and prepare the commit of their epoch."""
    size = -(-rows.num_rows // subtasks)
    owned = [rows.slice(subtask * size, size) for subtask in range(subtasks)]
    shares = [
        [own.slice(at, BATCH_ROWS) for at in range(0, own.num_rows, BATCH_ROWS)] for own in owned
    ]
    return stage_shares(sink, number, shares, state, job=job)
