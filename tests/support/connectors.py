"""What the connector tests share beside the kit: rows as batches, epochs in a chain."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headgate.connectors.base import Sink
from headgate.core.model import JsonValue
from headgate.testing import StagedEpoch, stage_epoch


def stage_epochs(
    sink: Sink, epochs: list[list[pa.RecordBatch]], *, first_epoch: int = 1
) -> list[StagedEpoch]:
    """Stage each epoch's batches, one subtask per batch, and chain the sink's state."""
    staged: list[StagedEpoch] = []
    state: JsonValue = None
    for number, batches in enumerate(epochs, first_epoch):
        staged.append(stage_epoch(sink, number, batches, state))
        state = staged[-1].state
    return staged


def staged_bytes(epoch: StagedEpoch) -> bytes:
    """Return what an epoch has staged, in order."""
    return b"".join(epoch.read_staged(file) for file in epoch.staged)


def prepared_batches(sink: Sink, df: DataFrame) -> list[pa.RecordBatch]:
    """What `stage` is given for these rows."""
    table = sink.prepare(df).toArrow()
    return list(table.combine_chunks().to_batches())


def batch_of(**values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(values)
