"""Arrow batches of one frame, from different micro-batches, under one schema."""

from __future__ import annotations

import pyarrow as pa


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch under `schema`, from which it differs at most in what may be null."""
    if batch.schema.equals(schema):
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
