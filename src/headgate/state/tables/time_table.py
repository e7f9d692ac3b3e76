"""Rows appended with a time, read by time range, dropped from the past on.

A run is sorted by time, so a range is a slice of it; a run that does not overlap the range is not
opened, and one that lies wholly behind the horizon is forgotten without being read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headgate.core.checkpoint import RunRef
from headgate.state.tables.base import StateTable, joined_table
from headgate.state.tables.io import TableIo
from headgate.state.tables.rows import (
    TIME,
    Ints,
    concat,
    conform,
    filter_mask,
    hashes,
    is_sorted,
    select,
    times,
)
from headgate.state.tables.version import ScratchRun, TableVersion

# Combines rows of equal key and time, e.g. by summing partial aggregates. Must not care how the
# rows are grouped into calls, nor how often it is applied.
MergeRows = Callable[[pa.Table], pa.Table]


class TimeTable(StateTable):
    """Rows by time: `_time` (int64 microseconds) and `_hash` (int32), plus any columns."""

    kind = "time"
    order = TIME

    @classmethod
    def open(
        cls,
        io: TableIo,
        version: TableVersion | None,
        schema: pa.Schema,
        *,
        name: str | None = None,
        merge: MergeRows | None = None,
    ) -> TimeTable:
        """Open one version; None is the empty table.

        Call `drop_before` with the watermark again after every open: a restored version does not
        remember it, and rows that were dropped before the checkpoint may still be in its runs.
        """
        return cls(io, version, schema, name=name, merge=merge)

    def __init__(
        self,
        io: TableIo,
        version: TableVersion | None,
        schema: pa.Schema,
        *,
        name: str | None = None,
        merge: MergeRows | None = None,
    ) -> None:
        super().__init__(io, version, schema, name)
        if TIME not in self.schema.names:
            raise ValueError(f"a time table needs an int64 column {TIME}: {self.schema}")
        self._merge = merge

    def append(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows. Those before the horizon are accepted and never seen again."""
        if rows.column(TIME).null_count:
            raise ValueError(f"the column {TIME} of a time table must not be null")
        self._add(rows)

    def read(self, min_time: int, max_time_exclusive: int) -> pa.Table:
        """Return the rows of [min_time, max_time_exclusive), this batch's included, in any order.

        Equal rows are not combined, not even if the table was opened with `merge`.
        """
        low = max(min_time, self.horizon)
        parts = []
        for run in self._version.runs:
            if _overlaps(run, low, max_time_exclusive):
                part = _between(self._open_run(run).batch, low, max_time_exclusive)
                parts.append(select(part, filter_mask(hashes(part), run.filters)))
        for scratch in self._version.scratch:
            if _overlaps(scratch, low, max_time_exclusive):
                parts.append(_between(self._open_scratch(scratch).batch, low, max_time_exclusive))
        for file in self._batch_files():
            parts.append(_between(file.batch, low, max_time_exclusive))
        return joined_table(parts, self.schema)

    def drop_before(self, time: int) -> None:
        """Forget every row with an earlier time. The horizon never moves back."""
        self._raise_horizon(time)

    def min_time(self) -> int | None:
        """Return a lower bound of the times of live rows, without reading any; None = no rows."""
        files: list[RunRef | ScratchRun] = [*self._version.runs, *self._version.scratch]
        bounds = [
            run.min_time
            for run in files
            if run.min_time is not None and not _before(run, self.horizon)
        ]
        for file in self._batch_files():
            if int(times(file.batch)[-1]) >= self.horizon:
                bounds.append(int(times(file.batch)[0]))
        return max(self.horizon, min(bounds)) if bounds else None

    def first_time(self) -> int | None:
        """Return the earliest time of the live rows by one search in each file; None = no rows.

        After a change of parallelism it may be that of another subtask's row, which is earlier.
        """
        runs = [self._open_run(r).batch for r in self._version.runs if not _before(r, self.horizon)]
        scratch = [
            self._open_scratch(run).batch
            for run in self._version.scratch
            if not _before(run, self.horizon)
        ]
        found = []
        for batch in [*runs, *scratch, *(file.batch for file in self._batch_files())]:
            column = times(batch)
            position = int(np.searchsorted(column, self.horizon))
            if position < len(column):
                found.append(int(column[position]))
        return min(found, default=None)

    def _combine(self, parts: Sequence[pa.RecordBatch], *, oldest: bool) -> pa.RecordBatch:
        del oldest  # nothing in a time table hides anything
        rows = concat(parts, self.schema)
        rows = select(rows, times(rows) >= self.horizon)
        if self._merge is not None and len(parts) > 1 and rows.num_rows:
            rows = conform(self._merge(pa.Table.from_batches([rows])), self.schema)
        if is_sorted(times(rows)):
            return rows
        return rows.take(time_order(times(rows)))

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        # Many rows may share one time, so a slice by time can still be too large.
        pieces = max(1, -(-rows.nbytes // (2 * self._io.run_bytes_max)))
        step = max(1, -(-rows.num_rows // pieces))
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step)

    def _still_needed(
        self, runs: tuple[RunRef, ...], scratch: tuple[ScratchRun, ...]
    ) -> tuple[tuple[RunRef, ...], tuple[ScratchRun, ...]]:
        return (
            tuple(run for run in runs if not _before(run, self.horizon)),
            tuple(run for run in scratch if not _before(run, self.horizon)),
        )


def _before(run: RunRef | ScratchRun, horizon: int) -> bool:
    return run.max_time is not None and run.max_time < horizon


def _overlaps(run: RunRef | ScratchRun, low: int, high: int) -> bool:
    if run.min_time is None or run.max_time is None:
        return True
    return run.min_time < high and run.max_time >= low


def _between(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    column = times(batch)
    first, last = np.searchsorted(column, [low, high])
    return batch.slice(int(first), max(0, int(last) - int(first)))


def time_order(values: Ints) -> Ints:
    """Return the stable order that sorts times; fast if they span less than half an hour."""
    offsets = values - values.min()
    if int(offsets.max()) < 2**31 and len(values) < 2**32:
        packed: Ints = (offsets << 32) | np.arange(len(values), dtype=np.int64)
        packed.sort()
        return packed & 0xFFFFFFFF
    return np.argsort(values, kind="stable")
