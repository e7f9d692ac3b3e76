"""Inner join of two streams that are only appended to: both sides are kept.

A new left row meets the right rows of earlier micro-batches; then the left rows are put away, and
a new right row meets all left rows. So each pair is found exactly once: by whichever of its rows
came later, or, within one micro-batch, by the right one.

A row is forgotten when it is older than the watermark by more than the time to live. One that
arrives that late is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.engine.task.batches import only_batch
from headgate.engine.task.merging import first_rows
from headgate.engine.task.subtask import Subtask
from headgate.state.tables import MultiTable
from headgate.state.tables.equality import row_codes
from headgate.state.tables.rows import HASH, TIME

Ints = npt.NDArray[np.int64]

LEFT, RIGHT = 0, 1
SIDE = "_side"
OUTPUT_ROWS_MAX = 100_000


@dataclass
class UpdatingJoinTask:
    """Rows arrive as (keys, `_side`, left columns, right columns, `_time`, `_hash`)."""

    schema: pa.Schema
    keys: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    ttl_us: int

    def output_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(n) for n in (*self.left, *self.right, TIME)])

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self._table(subtask, "left", self.left)
        right = self._table(subtask, "right", self.right)
        rows = only_batch(batches, self.schema)
        watermark = subtask.context.emitted_watermark
        if WATERMARK_MIN < watermark < WATERMARK_MAX:
            horizon = watermark - self.ttl_us
            left.expire(horizon)
            right.expire(horizon)
            late = pc.fill_null(pc.less(rows.column(TIME), horizon), False)
            if pc.any(late).as_py():
                subtask.rows_late += int(pc.sum(late).as_py())
                gone = pa.Table.from_batches([rows.filter(late)])
                subtask.note_late(gone, self.keys, TIME, lambda time: time + self.ttl_us)
                rows = rows.filter(pc.invert(late))
        side = rows.column(SIDE)
        new_left = rows.filter(pc.equal(side, LEFT)).select([HASH, *self.keys, *self.left, TIME])
        new_right = rows.filter(pc.equal(side, RIGHT)).select([HASH, *self.keys, *self.right, TIME])
        yield from self._pairs(new_left, right)
        left.put(new_left)
        yield from self._pairs(new_right, left)
        right.put(new_right)

    def _table(self, subtask: Subtask, name: str, columns: tuple[str, ...]) -> MultiTable:
        fields = [self.schema.field(n) for n in (HASH, *self.keys, *columns, TIME)]
        return subtask.multi_table(name, pa.schema(fields), list(self.keys))

    def _pairs(self, rows: pa.RecordBatch, others: MultiTable) -> Iterator[pa.RecordBatch]:
        """Yield every row beside every row of the other side with the same key."""
        if rows.num_rows == 0:
            return
        first, groups = first_rows(row_codes([rows.column(key) for key in self.keys]))
        found, owner = others.lookup_all(rows.take(pa.array(first)))
        counts = np.bincount(owner, minlength=len(first))
        offsets = np.cumsum(counts) - counts
        ends: Ints = np.cumsum(counts[groups])
        # A few hot keys can make any number of pairs: never more than this many at once.
        for start in range(0, int(ends[-1]), OUTPUT_ROWS_MAX):
            pair = np.arange(start, min(int(ends[-1]), start + OUTPUT_ROWS_MAX), dtype=np.int64)
            mine = np.searchsorted(ends, pair, side="right")
            nth = pair - (ends[mine] - counts[groups[mine]])
            theirs = offsets[groups[mine]] + nth
            yield self._side_by_side(rows, found, pa.array(mine), pa.array(theirs))

    def _side_by_side(
        self, rows: pa.RecordBatch, found: pa.Table, mine: pa.Array, theirs: pa.Array
    ) -> pa.RecordBatch:
        ours = set(rows.schema.names)
        columns = []
        for name in (*self.left, *self.right):
            chosen = rows.column(name).take(mine) if name in ours else found[name].take(theirs)
            columns.append(_one(chosen))
        times = pc.max_element_wise(
            rows.column(TIME).take(mine), _one(found[TIME].take(theirs)), skip_nulls=True
        )
        return pa.RecordBatch.from_arrays([*columns, times], schema=self.output_schema())


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
