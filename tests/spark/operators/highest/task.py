"""The state of `highest`: the greatest value of each key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.engine.task.batches import ARRIVAL, only_batch
from headgate.engine.task.subtask import Subtask
from headgate.state.tables.rows import HASH


@dataclass
class HighestTask:
    """Rows arrive as (key, value, `_timestamp`, `_arrival`, `_hash`)."""

    schema: pa.Schema
    key: str
    value: str

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = pa.schema([self.schema.field(name) for name in (HASH, self.key, self.value)])
        table = subtask.keyed_table("highest", kept, [self.key])
        rows = only_batch(batches, self.schema)
        known, _ = table.lookup(rows)
        best = dict(zip(rows[self.key].to_pylist(), known[self.value].to_pylist(), strict=True))
        passing = []
        for position in _in_order(rows):
            key, value = rows[self.key][position].as_py(), rows[self.value][position].as_py()
            if best[key] is None or value > best[key]:
                best[key] = value
                passing.append(position)
        records = rows.take(pa.array(passing, pa.int64()))
        table.put(pa.Table.from_batches([records.select(kept.names)]))
        yield records.select([self.key, self.value, TIMESTAMP_COLUMN])


def _in_order(rows: pa.RecordBatch) -> list[int]:
    arrival = rows[ARRIVAL].to_pylist()
    return sorted(range(rows.num_rows), key=arrival.__getitem__)
