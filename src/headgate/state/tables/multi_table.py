"""Many rows per key, for joins: a bag of rows, searched like a keyed table.

A row with `_deleted` takes away one earlier row that is equal to it in key and values (`_time` is
not compared), as a retraction does; where there is none it has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headgate.state.tables.equality import pair_codes, row_codes
from headgate.state.tables.io import TableIo
from headgate.state.tables.keyed_table import HashedTable, deleted_mask
from headgate.state.tables.rows import (
    DELETED,
    TIME,
    Ints,
    Mask,
    concat,
    conform,
    empty,
    hash_order,
    hashes,
    is_sorted,
    select,
)
from headgate.state.tables.search import Probe, matching_rows
from headgate.state.tables.version import TableVersion


class MultiTable(HashedTable):
    """A bag of rows by key."""

    bag = True

    @classmethod
    def open(
        cls,
        io: TableIo,
        version: TableVersion | None,
        schema: pa.Schema,
        key_columns: Sequence[str],
        *,
        name: str | None = None,
    ) -> MultiTable:
        """Open one version; None is the empty table. `_deleted` is added to the schema if absent.

        Call `expire` again after every open, if the table has a time to live.
        """
        return cls(io, version, schema, key_columns, name=name)

    @property
    def compared_columns(self) -> list[str]:
        return [name for name in self.schema.names if name not in (TIME, DELETED)]

    def lookup_all(self, keys: pa.Table | pa.RecordBatch) -> tuple[pa.Table, Ints]:
        """Return every live row whose key is among `keys`, and which row of `keys` it answers.

        Rows have all columns but `_deleted`; they come in the order of `keys`, and for one key the
        oldest first. A key that repeats gets its rows again. Sees what this batch has put.
        """
        asked = conform(keys, self.key_schema)
        probe = Probe.of(asked, self.key_columns)
        open_ = np.arange(asked.num_rows, dtype=np.int64)
        parts: list[pa.RecordBatch] = []
        owners: list[Ints] = []
        for file, filters in self._files(probe):
            positions, rows = matching_rows(probe, open_, file, self.key_columns, filters)
            parts.append(file.batch.take(pa.array(rows)))
            owners.append(probe.order[positions])
        found = concat(parts[::-1], self.schema)
        owner = np.concatenate([np.empty(0, np.int64), *owners[::-1]])
        expired = self._expired(found)
        if expired is not None and expired.any():
            found, owner = select(found, ~expired), owner[~expired]
        deleted = deleted_mask(found)
        if deleted.any():
            codes = row_codes([found.column(name) for name in self.compared_columns])
            keep = survivors(pair_codes(codes, owner), deleted, drop_unmatched=True)
            found, owner = select(found, keep), owner[keep]
        if not is_sorted(owner):
            order = hash_order(owner.astype(np.int32))
            found, owner = found.take(pa.array(order)), owner[order]
        names = [name for name in self.schema.names if name != DELETED]
        return pa.Table.from_batches([found]).select(names), owner

    def _combine(self, parts: Sequence[pa.RecordBatch], *, oldest: bool) -> pa.RecordBatch:
        rows = concat(parts, self.schema)
        expired = self._expired(rows)
        if expired is not None:
            rows = select(rows, ~expired)
        if rows.num_rows == 0:
            return empty(self.schema)
        found = hashes(rows)
        if not is_sorted(found):
            rows = rows.take(pa.array(hash_order(found)))
        deleted = deleted_mask(rows)
        if not deleted.any():
            return rows
        # Only rows that share a hash with a deletion can be concerned.
        touched = np.isin(hashes(rows), hashes(rows)[deleted])
        members = np.flatnonzero(touched)
        chosen = pa.array(members)
        codes = row_codes([rows.column(name).take(chosen) for name in self.compared_columns])
        keep = np.ones(rows.num_rows, dtype=np.bool_)
        keep[members] = survivors(codes, deleted[members], drop_unmatched=oldest)
        return select(rows, keep)


def survivors(codes: Ints, deleted: Mask, *, drop_unmatched: bool) -> Mask:
    """Tell which rows remain when every deletion takes away one earlier row of equal code.

    Rows are oldest first. A deletion that finds no row remains, unless it is to be dropped: what it
    is meant for may be in an older run. Of equal rows the newest remain.
    """
    order = np.argsort(codes, kind="stable")
    code, removes = codes[order], deleted[order]
    starts = np.flatnonzero(np.concatenate(([True], code[1:] != code[:-1])))
    sizes = np.diff(np.append(starts, len(code)))
    balance = _within(np.where(removes, -1, 1), starts, sizes)
    # How far the balance falls below zero is the number of deletions that found nothing; what it
    # has risen since then is the number of rows that remain.
    unmatched = np.maximum(0, -np.minimum.reduceat(balance, starts))
    remaining = balance[starts + sizes - 1] + unmatched
    nth_removal = _within(removes.astype(np.int64), starts, sizes)
    nth_row = _within((~removes).astype(np.int64), starts, sizes)
    rows = nth_row[starts + sizes - 1]
    kept = ~removes & (nth_row > np.repeat(rows - remaining, sizes))
    if not drop_unmatched:
        kept |= removes & (nth_removal <= np.repeat(unmatched, sizes))
    result = np.empty(len(codes), dtype=np.bool_)
    result[order] = kept
    return result


def _within(values: Ints, starts: Ints, sizes: Ints) -> Ints:
    """Return running sums that begin anew at every start."""
    sums = np.cumsum(values)
    before = sums[starts] - values[starts]
    return np.asarray(sums - np.repeat(before, sizes))
