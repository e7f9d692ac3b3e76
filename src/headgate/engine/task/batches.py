"""The rows of a subtask as operators want them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from headgate.engine.task.conform import conformed
from headgate.state.tables.rows import conform, hash_order, hashes, is_sorted

# Counts rows as they come, before an exchange, which brings them in any order.
ARRIVAL = "_arrival"


def only_batch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return all rows of the subtask as one record batch in the order of their hash."""
    parts = [conformed(batch, schema) for batch in batches]
    rows = conform(pa.Table.from_batches(parts, schema=schema), schema)
    found = hashes(rows)
    # Sorted once here, it needs no sorting in the search, in the state, and in what is written.
    return rows if is_sorted(found) else rows.take(pa.array(hash_order(found)))


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
