"""The newest row of every key.

A run is sorted by key hash and holds a key once. A lookup goes through the runs from the newest to
the oldest and stops searching for a key where it is found, be it as a row or as a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.checkpoint import HashFilter, RunRef
from headgate.state.tables.base import StateTable
from headgate.state.tables.equality import equal_rows, row_codes
from headgate.state.tables.io import TableIo
from headgate.state.tables.mapped import OpenFile
from headgate.state.tables.rows import (
    DELETED,
    HASH,
    TIME,
    Hashes,
    Ints,
    Mask,
    concat,
    conform,
    empty,
    filter_mask,
    hash_order,
    hashes,
    is_sorted,
    select,
)
from headgate.state.tables.search import Probe, matching_rows, rows_between
from headgate.state.tables.version import ScratchRun, TableVersion


class HashedTable(StateTable):
    """What tables searched by key share: the columns, tombstones, expiry, and the search."""

    kind = "keyed"
    order = HASH
    bag: ClassVar[bool] = False

    def __init__(
        self,
        io: TableIo,
        version: TableVersion | None,
        schema: pa.Schema,
        key_columns: Sequence[str],
        *,
        name: str | None = None,
    ) -> None:
        if DELETED not in schema.names:
            schema = schema.append(pa.field(DELETED, pa.bool_()))
        super().__init__(io, version, schema, name)
        self.key_columns = tuple(key_columns)
        if not self.key_columns:
            raise ValueError("a keyed table needs at least one key column")
        self._version = replace(self._version, keys=self.key_columns, bag=self.bag)
        self.key_schema = pa.schema(
            [self.schema.field(HASH), *(self.schema.field(key) for key in self.key_columns)]
        )
        special = {HASH, DELETED, *self.key_columns}
        self.value_columns = tuple(name for name in self.schema.names if name not in special)

    def put(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows; where `_deleted` is true they are tombstones. Without it, none is."""
        if DELETED not in rows.schema.names:
            rows = rows.append_column(DELETED, pa.array(np.zeros(rows.num_rows, np.bool_)))
        self._add(rows)

    def expire(self, before_time: int) -> None:
        """Treat rows with an earlier `_time` as absent, from now on; null never expires.

        They leave the files when these are merged. The bound never moves back.
        """
        if TIME not in self.schema.names:
            raise ValueError(f"a table without a column {TIME} cannot expire")
        self._raise_horizon(before_time)

    def _files(self, probe: Probe) -> Iterator[tuple[OpenFile, tuple[HashFilter, ...]]]:
        """Open what may hold one of the keys, newest first."""
        for file in reversed(self._batch_files()):
            yield file, ()
        for scratch in reversed(self._version.scratch):
            if probe.may_be_in(scratch.min_hash, scratch.max_hash):
                yield self._open_scratch(scratch), ()
        for run in reversed(self._version.runs):
            if probe.may_be_in(run.min_hash, run.max_hash):
                yield self._open_run(run), run.filters

    def _expired(self, batch: pa.RecordBatch) -> Mask | None:
        if TIME not in self.schema.names:
            return None
        column = batch.column(TIME)
        if column.null_count == 0:
            return np.asarray(column.to_numpy(zero_copy_only=True) < self.horizon)
        return bool_mask(pc.fill_null(pc.less(column, self.horizon), False))

    def _gone(self, batch: pa.RecordBatch) -> Mask:
        """Tell which rows say that their key is absent."""
        gone = deleted_mask(batch)
        expired = self._expired(batch)
        return gone if expired is None else gone | expired

    def _still_needed(
        self, runs: tuple[RunRef, ...], scratch: tuple[ScratchRun, ...]
    ) -> tuple[tuple[RunRef, ...], tuple[ScratchRun, ...]]:
        # Only from the oldest on: an expired row may hide an older one of the same key.
        files: list[RunRef | ScratchRun] = [*runs, *scratch]
        gone = 0
        for file in files:
            if file.max_time is None or file.max_time >= self.horizon:
                break
            gone += 1
        return runs[gone:], scratch[max(0, gone - len(runs)) :]

    def scan(self) -> pa.Table:
        """Return all live rows of the subtask, in the order of their hash."""
        return pa.Table.from_batches(list(self.scan_slices()), schema=self.schema)

    def scan_slices(self) -> Iterator[pa.RecordBatch]:
        """Yield all live rows in pieces of bounded size; a key is never in two of them."""
        parts = self._run_parts(self._version.runs)
        yield from self._slices([*parts, *self._epoch_changes()], oldest=True)


class KeyedTable(HashedTable):
    """One row per key; a later one replaces it, a tombstone removes it."""

    @classmethod
    def open(
        cls,
        io: TableIo,
        version: TableVersion | None,
        schema: pa.Schema,
        key_columns: Sequence[str],
        *,
        name: str | None = None,
    ) -> KeyedTable:
        """Open one version; None is the empty table. `_deleted` is added to the schema if absent.

        Call `expire` again after every open, if the table has a time to live.
        """
        return cls(io, version, schema, key_columns, name=name)

    def delete(self, keys: pa.Table | pa.RecordBatch) -> None:
        """Put a tombstone for every key (`_hash` and the key columns)."""
        asked = conform(keys, self.key_schema)
        columns = {name: asked.column(name) for name in self.key_schema.names}
        columns[DELETED] = pa.array(np.ones(asked.num_rows, np.bool_))
        nulls = {
            name: pa.nulls(asked.num_rows, self.schema.field(name).type)
            for name in self.value_columns
        }
        self.put(pa.table({**columns, **nulls}))

    def lookup(self, keys: pa.Table | pa.RecordBatch) -> tuple[pa.Table, pa.BooleanArray]:
        """Return the values (all columns but hash, key and tombstone) beside the keys.

        Row i of the result belongs to row i of `keys` and is null if the key is absent; the
        array says which were found. Sees what this batch has put. Keys may repeat.
        """
        asked = conform(keys, self.key_schema)
        probe = Probe.of(asked, self.key_columns)
        columns = [*self.value_columns, DELETED]
        open_ = np.arange(asked.num_rows, dtype=np.int64)
        parts: list[pa.RecordBatch] = []
        owners: list[Ints] = []
        is_open = np.ones(asked.num_rows, dtype=np.bool_)
        for file, filters in self._files(probe):
            positions, rows = matching_rows(probe, open_, file, self.key_columns, filters)
            if len(rows) == 0:
                continue
            parts.append(file.batch.select(columns).take(pa.array(rows)))
            owners.append(probe.order[positions])
            is_open[positions] = False
            open_ = open_[is_open[open_]]
            if len(open_) == 0:
                break
        return self._beside(asked.num_rows, parts, owners)

    def older_than(self, time_us: int) -> pa.Table:
        """Return the live rows whose `_time` is earlier, with all columns but `_deleted`.

        Sees what this batch has put. Files with nothing that old are not opened, and the cost of
        the others follows what is found in them.
        """
        keys = concat(list(self._keys_before(time_us)), self.key_schema)
        order = hash_order(hashes(keys))
        columns = [keys.column(key) for key in self.key_columns]
        once = newest_of_equal(hashes(keys)[order], order, columns)
        keys = keys.take(pa.array(order[once]))
        values, found = self.lookup(keys)
        rows = pa.Table.from_batches([keys])
        for name in self.value_columns:
            rows = rows.append_column(self.schema.field(name), values[name])
        # A key may be old in one file and newer in another.
        due = pc.and_(found, pc.fill_null(pc.less(values[TIME], time_us), False))
        return rows.filter(due)

    def _keys_before(self, time_us: int) -> Iterator[pa.RecordBatch]:
        """Yield the keys that any file holds with a time between the horizon and this one."""
        files: list[tuple[OpenFile, tuple[HashFilter, ...]]]
        files = [(file, ()) for file in self._batch_files()]
        files += [
            (self._open_scratch(scratch), ())
            for scratch in self._version.scratch
            if _may_be_older(scratch, time_us)
        ]
        files += [
            (self._open_run(run), run.filters)
            for run in self._version.runs
            if _may_be_older(run, time_us)
        ]
        for file, filters in files:
            rows = rows_between(file, self.horizon, time_us)
            keys = file.batch.select(self.key_schema.names).take(pa.array(rows))
            yield select(keys, filter_mask(hashes(keys), filters))

    def _beside(
        self, count: int, parts: list[pa.RecordBatch], owners: list[Ints]
    ) -> tuple[pa.Table, pa.BooleanArray]:
        schema = pa.schema([self.schema.field(name) for name in (*self.value_columns, DELETED)])
        found = concat(parts, schema)
        source = np.full(count, -1, dtype=np.int64)
        if owners:
            source[np.concatenate(owners)] = np.arange(found.num_rows, dtype=np.int64)
            gone = np.append(self._gone(found), True)
            source[gone[source]] = -1
        absent = source < 0
        values = found.select(list(self.value_columns))
        if not self.value_columns or (not absent.any() and is_sorted(source)):
            aligned = values
        else:
            aligned = values.take(pa.array(source, mask=absent))
        return pa.Table.from_batches([aligned]), pa.array(~absent)

    def _combine(self, parts: Sequence[pa.RecordBatch], *, oldest: bool) -> pa.RecordBatch:
        rows = concat(parts, self.schema)
        if rows.num_rows == 0:
            return empty(self.schema)
        found = hashes(rows)
        if is_sorted(found):
            order = np.arange(len(found), dtype=np.int64)
        else:
            order = hash_order(found)
            found = found[order]
        keep = newest_of_equal(found, order, [rows.column(key) for key in self.key_columns])
        if oldest:
            keep &= ~self._gone(rows)[order]
        if keep.all() and is_sorted(order):
            return rows
        return rows.take(pa.array(order[keep]))


def _may_be_older(run: RunRef | ScratchRun, time_us: int) -> bool:
    return run.min_time is None or run.min_time < time_us


def newest_of_equal(sorted_hashes: Hashes, order: Ints, keys: Sequence[pa.Array]) -> Mask:
    """Tell, in sorted order, which rows are the last of their key. The order must be stable."""
    keep = np.ones(len(order), dtype=np.bool_)
    same_hash = sorted_hashes[1:] == sorted_hashes[:-1]
    at = np.flatnonzero(same_hash)
    if len(at) == 0:
        return keep
    earlier, later = pa.array(order[at]), pa.array(order[at + 1])
    same_key = equal_rows([k.take(earlier) for k in keys], [k.take(later) for k in keys])
    keep[at[same_key]] = False
    if same_key.all():
        return keep
    # Different keys share a hash: their rows may be interleaved, so neighbours are not enough.
    group = np.concatenate(([0], np.cumsum(~same_hash)))
    mixed = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    mixed[group[at[~same_key]]] = True
    members = np.flatnonzero(mixed[group])
    chosen = pa.array(order[members])
    codes = row_codes([key.take(chosen) for key in keys])
    _, from_end = np.unique(codes[::-1], return_index=True)
    keep[members] = False
    keep[members[len(members) - 1 - from_end]] = True
    return keep


def deleted_mask(batch: pa.RecordBatch) -> Mask:
    return bool_mask(pc.fill_null(batch.column(DELETED), False))


def bool_mask(array: pa.Array) -> Mask:
    return np.array(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
