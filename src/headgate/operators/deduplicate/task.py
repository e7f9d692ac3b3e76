"""Deduplication: the first row of a key passes, the others within the time to live do not.

"First" is by event time within a micro-batch, then by arrival; a row of an earlier micro-batch
stands before all later ones. The state is the time of the last row that passed, per key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.engine.task.batches import ARRIVAL, one_array, only_batch
from headgate.engine.task.merging import first_rows
from headgate.engine.task.subtask import Subtask
from headgate.state.tables.equality import row_codes
from headgate.state.tables.rows import HASH, TIME

Ints = npt.NDArray[np.int64]

TABLE = "seen"


@dataclass
class DeduplicateTask:
    """Rows arrive as (keys, columns, `_time`, `_arrival`, `_hash`) and leave as `columns`."""

    schema: pa.Schema
    keys: tuple[str, ...]
    output: pa.Schema
    ttl_us: int

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = [self.schema.field(name) for name in (HASH, *self.keys, TIME)]
        seen = subtask.keyed_table(TABLE, pa.schema(fields), list(self.keys))
        if WATERMARK_MIN < subtask.context.emitted_watermark < WATERMARK_MAX:
            # A row at or after the watermark is no duplicate of one that is older than this.
            seen.expire(subtask.context.emitted_watermark - self.ttl_us + 1)
        rows = only_batch(batches, self.schema)
        if rows.num_rows == 0:
            return
        first, groups = first_rows(row_codes([rows.column(key) for key in self.keys]))
        known, _ = seen.lookup(rows.take(pa.array(first)))
        # A key is free again `ttl` after the row that passed.
        free_at = pc.add(one_array(known[TIME]), self.ttl_us)
        free: Ints = np.array(pc.fill_null(free_at, WATERMARK_MIN).to_numpy(zero_copy_only=False))
        times = pc.fill_null(rows.column(TIME), 0).to_numpy(zero_copy_only=False)
        arrival = rows.column(ARRIVAL).to_numpy(zero_copy_only=False)
        passing = rows.take(pa.array(passing_rows(groups, times, arrival, free, self.ttl_us)))
        seen.put(passing.select([HASH, *self.keys, TIME]))
        yield passing.select(self.output.names)


def passing_rows(groups: Ints, times: Ints, arrival: Ints, free: Ints, ttl_us: int) -> Ints:
    """Return the rows that are no duplicates; of one group in ascending order of time.

    `free` says for each group from when on a row passes, and is moved on.
    """
    order = np.lexsort((arrival, times, groups))
    group, time = groups[order], times[order]
    left = np.flatnonzero(time >= free[group])
    rounds = []
    # Each round lets the first remaining row of every group pass: as many rounds as times to live
    # lie between the first and the last row of a group.
    while len(left):
        firsts = left[np.flatnonzero(np.diff(group[left], prepend=-1))]
        free[group[firsts]] = time[firsts] + max(1, ttl_us)
        rounds.append(order[firsts])
        left = left[time[left] >= free[group[left]]]
    return np.concatenate([np.empty(0, np.int64), *rounds])
