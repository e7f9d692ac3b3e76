"""Updating aggregates kept as partials: one row of state per key, merged with what is new.

Rows arrive as (keys, `_hash`, `_time` = newest event, partials), each key once. What goes out is
one row per key with its old and its new partials side by side; Spark computes the outputs of both
and leaves out the pairs that did not change.

A key without rows for longer than the time to live is retracted and forgotten. The expiry moves
in steps of a fraction of that time, so that looking for expired keys costs little per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.engine.task.batches import one_array, only_batch
from headgate.engine.task.merging import merge_pair
from headgate.engine.task.subtask import Subtask
from headgate.state.tables import KeyedTable
from headgate.state.tables.rows import HASH, TIME

TABLE = "keys"
ROWS = "_rows"
OLD, NEW = "_old_", "_new_"
HAS_OLD, HAS_NEW = "_old", "_new"
EXPIRY_STEPS = 64


def expiry_horizon(watermark: int, ttl_us: int) -> int | None:
    """Return the time before which keys expire, in steps; None if nothing does.

    The end of all data is no passing of time: it expires nothing.
    """
    if watermark <= WATERMARK_MIN or watermark >= WATERMARK_MAX:
        return None
    step = max(1, ttl_us // EXPIRY_STEPS)
    return (watermark - ttl_us) // step * step


@dataclass
class UpdatingTask:
    schema: pa.Schema
    keys: tuple[str, ...]
    # Partial name -> how it merges.
    merges: dict[str, str]
    ttl_us: int
    input_updating: bool

    def output_schema(self) -> pa.Schema:
        keys = [self.schema.field(key) for key in self.keys]
        partials = [
            pa.field(prefix + name, self.schema.field(name).type)
            for prefix in (OLD, NEW)
            for name in self.merges
        ]
        flags = [pa.field(HAS_OLD, pa.bool_()), pa.field(HAS_NEW, pa.bool_())]
        return pa.schema([*keys, *partials, *flags, pa.field(TIME, pa.int64())])

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = subtask.keyed_table(TABLE, self.schema, list(self.keys))
        horizon = expiry_horizon(subtask.context.emitted_watermark, self.ttl_us)
        rows = only_batch(batches, self.schema)
        if rows.num_rows:
            yield self._merge(table, rows, horizon)
        if horizon is not None and horizon > table.horizon:
            # What came just now is newer than the horizon, so these keys have no new rows.
            expired = table.older_than(horizon)
            if expired.num_rows:
                table.delete(expired)
                yield self._gone(expired)
            table.expire(horizon)

    def _merge(
        self, table: KeyedTable, rows: pa.RecordBatch, horizon: int | None
    ) -> pa.RecordBatch:
        """Merge new partials with the state; return the pairs."""
        values, found = table.lookup(rows)
        old = {name: one_array(values[name]) for name in (*self.merges, TIME)}
        kept = old
        if horizon is not None and not self.input_updating:
            # An expired key that comes back starts anew; what it was is still to be retracted.
            expired = pc.fill_null(pc.less(old[TIME], horizon), False)
            if pc.any(expired).as_py():
                kept = {n: pc.if_else(expired, pa.scalar(None, c.type), c) for n, c in old.items()}
        time = merge_pair(kept[TIME], rows.column(TIME), "max")
        if horizon is not None:
            time = pc.max_element_wise(time, pa.scalar(horizon, pa.int64()))
        new = {n: merge_pair(kept[n], rows.column(n), how) for n, how in self.merges.items()}
        alive = self._alive(new, rows.num_rows)
        self._put(table, rows, new, time, found, alive)
        columns = {key: rows.column(key) for key in self.keys}
        columns |= {OLD + name: old[name] for name in self.merges}
        columns |= {NEW + name: new[name] for name in self.merges}
        columns |= {HAS_OLD: found, HAS_NEW: alive, TIME: time}
        return pa.RecordBatch.from_pydict(columns, schema=self.output_schema())

    def _alive(self, new: dict[str, pa.Array], count: int) -> pa.BooleanArray:
        if ROWS not in new:
            return pa.array(np.ones(count, np.bool_))
        return pc.fill_null(pc.greater(new[ROWS], 0), False)

    def _put(
        self,
        table: KeyedTable,
        rows: pa.RecordBatch,
        new: dict[str, pa.Array],
        time: pa.Array,
        found: pa.BooleanArray,
        alive: pa.BooleanArray,
    ) -> None:
        columns = {HASH: rows.column(HASH), **{key: rows.column(key) for key in self.keys}}
        columns |= new | {TIME: time}
        if pc.all(alive).as_py():
            table.put(pa.table(columns))
            return
        changed = pa.table(columns | {"_deleted": pc.invert(alive)})
        # A retraction of what is not there leaves nothing behind.
        table.put(changed.filter(pc.or_(found, alive)))

    def _gone(self, expired: pa.Table) -> pa.RecordBatch:
        count = expired.num_rows
        columns = {key: one_array(expired[key]) for key in self.keys}
        columns |= {OLD + name: one_array(expired[name]) for name in self.merges}
        columns |= {NEW + n: pa.nulls(count, self.schema.field(n).type) for n in self.merges}
        columns[HAS_OLD] = pa.array(np.ones(count, np.bool_))
        columns[HAS_NEW] = pa.array(np.zeros(count, np.bool_))
        columns[TIME] = one_array(expired[TIME])
        return pa.RecordBatch.from_pydict(columns, schema=self.output_schema())
