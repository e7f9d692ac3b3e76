"""Tumbling and hopping windows: keep bins until the watermark passes their window, then emit.

Rows arrive as (keys, `_time` = start of bin, `_hash`, values, `_n` = rows behind them). With
`merges` the values are partial aggregates, merged per (keys, window) on the way out; without, they
are raw rows and pass as they are. A window [s, s + width) is due when s + width <= watermark; it
holds the bins s, s + slide, ... and tumble is the case of a single one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headgate.engine.task.merging import merge_rows
from headgate.engine.task.subtask import Subtask

LATE_COLUMN = "_n"
TABLE = "bins"


@dataclass
class WindowTask:
    schema: pa.Schema
    slide: int
    width: int
    keys: tuple[str, ...]
    # Partial name -> how it merges; None = raw rows.
    merges: dict[str, str] | None

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = subtask.time_table(TABLE, self.schema, merge=self._merged if self.merges else None)
        emitted = self._last_due(subtask.context.emitted_watermark)
        # A restored table may still name runs with bins that were emitted before the checkpoint.
        table.drop_before(emitted + self.slide)
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            # The last window of a bin starts with it: at or before `emitted`, nobody waits for it.
            kept = rows.filter(pc.greater(rows["_time"], emitted))
            if kept.num_rows < rows.num_rows:
                subtask.rows_late += _total(rows, LATE_COLUMN) - _total(kept, LATE_COLUMN)
                late = rows.filter(pc.less_equal(rows["_time"], emitted))
                # The last window of a bin starts with it.
                subtask.note_late(late, self.keys, "_time", lambda start: start + self.width)
            table.append(kept)
        due = self._last_due(subtask.context.watermark)
        if due > emitted and table.min_time() is not None:
            first = emitted + self.slide
            yield from self._windows(table.read(first, due + self.width), first, due)
        table.drop_before(due + self.slide)
        remaining = table.min_time()
        if remaining is not None:
            start = max(due + self.slide, remaining - self.width + self.slide)
            subtask.next_timer = start + self.width

    def _last_due(self, watermark: int) -> int:
        """Return the start of the last window whose end the watermark has passed."""
        return (watermark - self.width) // self.slide * self.slide

    def _windows(self, bins: pa.Table, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the windows that start in [first, last], `_time` = window start."""
        column = self.schema.get_field_index("_time")
        pieces = []
        for offset in range(0, self.width, self.slide):
            start = pc.subtract(bins["_time"], offset)
            wanted = pc.and_(pc.greater_equal(start, first), pc.less_equal(start, last))
            shifted = bins.set_column(column, self.schema.field("_time"), start)
            pieces.append(shifted.filter(wanted))
        rows = pa.concat_tables(pieces)
        yield from (self._merged(rows) if self.merges is not None else rows).to_batches()

    def _merged(self, rows: pa.Table) -> pa.Table:
        """Merge the partials of equal (keys, time) into one row each."""
        assert self.merges is not None
        merges = self.merges | {LATE_COLUMN: "sum", "_hash": "min"}
        return merge_rows(rows, [*self.keys, "_time"], merges, self.schema)


def _total(rows: pa.Table, column: str) -> int:
    total = pc.sum(rows[column]).as_py()
    return int(total or 0)
