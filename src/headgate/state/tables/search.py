"""Search in sorted runs: n keys in a run of m rows cost O(n log m), never a scan.

The keys are sorted by hash first: a binary search for ascending values walks through memory in
one direction, and is several times faster than the same searches in random order. Only the pages
that the search and the found rows lie on are read from a mapped file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headgate.core.checkpoint import HashFilter
from headgate.state.tables.equality import equal_rows
from headgate.state.tables.mapped import OpenFile
from headgate.state.tables.rows import (
    TIME,
    Hashes,
    Ints,
    Mask,
    filter_mask,
    hash_order,
    hashes,
    is_sorted,
)

# Larger runs hold most keys anyway, and the table would need more than 8 MiB of every process.
PRESENCE_ROWS_MAX = 1 << 20
# Smaller files are read through faster than they are ordered.
TIME_INDEX_ROWS_MIN = 1 << 16


@dataclass(frozen=True)
class Probe:
    """Keys to look for, in ascending order of their hash."""

    columns: tuple[pa.Array, ...]
    # Ascending; entry i belongs to row `order[i]` of the columns.
    hashes: Hashes
    order: Ints

    @staticmethod
    def of(keys: pa.RecordBatch, key_columns: Sequence[str]) -> Probe:
        found = hashes(keys)
        if is_sorted(found):
            order = np.arange(len(found), dtype=np.int64)
        else:
            order = hash_order(found)
            found = found[order]
        return Probe(tuple(keys.column(name) for name in key_columns), found, order)

    def may_be_in(self, low: int | None, high: int | None) -> bool:
        """Tell whether any hash lies in the closed range; None = the range is not known."""
        if low is None or high is None:
            return len(self.hashes) > 0
        first = int(np.searchsorted(self.hashes, np.int32(low), side="left"))
        return first < len(self.hashes) and int(self.hashes[first]) <= high


def matching_rows(
    probe: Probe,
    open_: Ints,
    file: OpenFile,
    key_columns: Sequence[str],
    filters: Sequence[HashFilter] = (),
) -> tuple[Ints, Ints]:
    """Find the rows of a sorted run whose key is one of the open ones.

    `open_` are positions in the order of the probe, ascending. Returns pairs (position, row of the
    run): for one position in ascending order of rows.
    """
    batch = file.batch
    wanted = probe.hashes[open_]
    mask = filter_mask(wanted, filters)
    if mask is not None:
        open_, wanted = open_[mask], wanted[mask]
    mask = _may_be_present(wanted, file)
    if mask is not None:
        # Few are left: taking them by position is much faster than by mask.
        left = np.flatnonzero(mask)
        open_, wanted = open_.take(left), wanted.take(left)
    which, rows = _equal_ranges(wanted, hashes(batch))
    if len(rows) == 0:
        return which, rows
    positions = open_[which]
    # Equal hashes of different keys occur: the keys themselves decide.
    asked = pa.array(probe.order[positions])
    found = pa.array(rows)
    same = equal_rows(
        [column.take(asked) for column in probe.columns],
        [batch.column(name).take(found) for name in key_columns],
    )
    if same.all():
        return positions, rows
    return positions[same], rows[same]


def _may_be_present(wanted: Hashes, file: OpenFile) -> Mask | None:
    """Tell cheaply which hashes may be in a file; None means that it is not known.

    Most keys are not in most of the small, new runs. One look into a table of the ranges that
    occur, eight times as many as there are rows, spares nearly all of those searches.
    """
    rows = file.batch.num_rows
    if file.presence is None:
        if rows > PRESENCE_ROWS_MAX or len(wanted) * 16 < rows:
            return None
        bits = max(10, (rows * 8 - 1).bit_length())
        presence = np.zeros(1 << bits, dtype=np.bool_)
        presence[_ranges(hashes(file.batch), bits)] = True
        file.presence = presence
    return file.presence.take(_ranges(wanted, file.presence.size.bit_length() - 1))


def _ranges(values: Hashes, bits: int) -> Ints:
    return (values.view(np.uint32) >> np.uint32(32 - bits)).astype(np.int64)


def _equal_ranges(wanted: Hashes, stored: Hashes) -> tuple[Ints, Ints]:
    """Return all pairs (i, j) with wanted[i] == stored[j]; both ascending."""
    first = np.searchsorted(stored, wanted, side="left")
    hit = np.zeros(len(wanted), dtype=np.bool_)
    inside = first < len(stored)
    hit[inside] = stored[first[inside]] == wanted[inside]
    which = np.flatnonzero(hit)
    first = first[which]
    # Nearly all ranges hold one row; only the others need to know where they end.
    longer = np.flatnonzero(first + 1 < len(stored))
    longer = longer[stored[first[longer] + 1] == wanted[which[longer]]]
    if len(longer) == 0:
        return which, first
    counts = np.ones(len(which), dtype=np.int64)
    ends = np.searchsorted(stored, wanted[which[longer]], side="right")
    counts[longer] = ends - first[longer]
    starts = np.cumsum(counts) - counts
    rows = np.repeat(first - starts, counts) + np.arange(int(counts.sum()), dtype=np.int64)
    return np.repeat(which, counts), rows


def rows_between(file: OpenFile, low: int, high: int) -> Ints:
    """Return the rows of a file whose time lies in [low, high), ascending.

    Large files are ordered by time once per process; after that the cost follows what is found.
    """
    column = file.batch.column(TIME)
    if file.by_time is None:
        present = column.is_valid().to_numpy(zero_copy_only=False)
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        if len(values) < TIME_INDEX_ROWS_MIN:
            return np.flatnonzero(present & (values >= low) & (values < high))
        timed = np.flatnonzero(present)
        file.by_time = timed[np.argsort(values[timed])].astype(np.int32)

    def time_of(row: int) -> int:
        return int(column[int(row)].as_py())

    order = cast(Sequence[int], file.by_time)
    first = bisect_left(order, low, key=time_of)
    last = bisect_left(order, high, lo=first, key=time_of)
    return np.sort(file.by_time[first:last]).astype(np.int64)
