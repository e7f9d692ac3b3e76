"""Session windows: open sessions by key, and an index of when they end.

What arrives are pieces of sessions (keys, `_start`, `_end`, values, `_n` = rows behind them): all
events of a piece are less than the gap apart, so they belong together in any case. Pieces and
open sessions of a key that touch (start <= end) become one session. It is emitted when the
watermark reaches its end.

A piece is late when its session would be closed already: it ends at or before the watermark of
the last micro-batch, and touches neither an open session nor a piece that is not late.

Only keys with new pieces, and keys that the index of ends names as due, are looked up. An entry
of the index may be stale, because the session has grown since: then nothing of the key is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.engine.task.batches import one_array, only_batch
from headgate.engine.task.merging import first_rows, merge_groups
from headgate.engine.task.subtask import Subtask
from headgate.state.tables import MultiTable, TimeTable
from headgate.state.tables.equality import row_codes
from headgate.state.tables.rows import DELETED, HASH, TIME

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SESSIONS_TABLE, ENDS_TABLE, ROWS_TABLE = "sessions", "ends", "rows"
START, END, COUNT = "_start", "_end", "_n"
AT = "_at"


@dataclass
class Merged:
    """Sessions that pieces and open sessions have become, in order of (owner, start)."""

    # For every input interval, the session it belongs to.
    session_of: Ints
    owner: Ints
    start: Ints
    end: Ints


def merge_intervals(owner: Ints, start: Ints, end: Ints) -> Merged:
    """Join the intervals of one owner that overlap or touch."""
    order = np.lexsort((start, owner))
    by_owner, starts, ends = owner[order], start[order], end[order]
    distinct, rank = np.unique(ends, return_inverse=True)
    # The greatest end so far of the same owner: owners ascend, so a new one outranks all before.
    size = len(distinct)
    highest = np.maximum.accumulate(by_owner * size + rank)
    begins = np.ones(len(order), np.bool_)
    same_owner = by_owner[1:] == by_owner[:-1]
    begins[1:] = ~same_owner | (starts[1:] > distinct[highest[:-1] % size])
    first = np.flatnonzero(begins)
    session_of = np.empty(len(order), np.int64)
    session_of[order] = np.cumsum(begins) - 1
    return Merged(session_of, by_owner[first], starts[first], np.maximum.reduceat(ends, first))


@dataclass
class SessionTask:
    schema: pa.Schema
    keys: tuple[str, ...]
    # Partial name -> how it merges; None = the values are raw rows, kept as they are.
    merges: dict[str, str] | None
    values: tuple[str, ...] = ()

    def output_schema(self) -> pa.Schema:
        names = self.values if self.merges is None else tuple(self.merges)
        return pa.schema([self.schema.field(n) for n in (*self.keys, START, END, *names)])

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = subtask.context
        sessions, ends = self._tables(subtask)
        bag = self._rows_table(subtask) if self.merges is None else None
        ends.drop_before(context.emitted_watermark + 1)
        pieces = only_batch(batches, self.schema)
        due = ends.read(context.emitted_watermark + 1, context.watermark + 1)
        if pieces.num_rows or due.num_rows:
            touched = _Touched.of(self.keys, pieces, due)
            yield from self._advance(subtask, sessions, ends, bag, pieces, touched)
        ends.drop_before(context.watermark + 1)
        subtask.next_timer = ends.first_time()

    def _tables(self, subtask: Subtask) -> tuple[MultiTable, TimeTable]:
        key_fields = [self.schema.field(name) for name in (HASH, *self.keys)]
        names = (START, END, COUNT, *(self.merges or ()))
        fields = [*key_fields, *(self.schema.field(name) for name in names)]
        sessions = subtask.multi_table(SESSIONS_TABLE, pa.schema(fields), list(self.keys))
        ends = subtask.time_table(ENDS_TABLE, pa.schema([*key_fields, pa.field(TIME, pa.int64())]))
        return sessions, ends

    def _rows_table(self, subtask: Subtask) -> MultiTable:
        fields = [self.schema.field(name) for name in (HASH, *self.keys, *self.values)]
        fields.append(pa.field(AT, pa.int64()))
        return subtask.multi_table(ROWS_TABLE, pa.schema(fields), list(self.keys))

    def _advance(
        self,
        subtask: Subtask,
        sessions: MultiTable,
        ends: TimeTable,
        bag: MultiTable | None,
        pieces: pa.RecordBatch,
        touched: _Touched,
    ) -> Iterator[pa.RecordBatch]:
        """Join new pieces with the open sessions of their keys; put, emit and count the outcome."""
        stored, owner = sessions.lookup_all(touched.keys)
        known = stored.num_rows
        names = [START, END, COUNT, *(self.merges or ())]
        parts = [stored.select(names), pa.Table.from_batches([pieces]).select(names)]
        members = pa.concat_tables(parts, promote_options="permissive")
        merged = merge_intervals(
            np.concatenate([owner, touched.piece_owner]), _ints(members[START]), _ints(members[END])
        )
        count = len(merged.start)
        was_open = np.bincount(merged.session_of[:known], minlength=count) > 0
        has_new = np.bincount(merged.session_of[known:], minlength=count) > 0
        late = ~was_open & (merged.end <= subtask.context.emitted_watermark)
        closes = ~late & (merged.end <= subtask.context.watermark)
        stays = ~late & ~closes
        outdated = (has_new | closes)[merged.session_of[:known]]
        sessions.put(_as_deleted(stored.filter(pa.array(outdated))))
        rows = self._session_rows(touched, members, merged)
        subtask.rows_late += int(_ints(rows[COUNT])[late].sum())
        ended = rows.filter(pa.array(late))
        if ended.num_rows:
            subtask.note_late(ended, self.keys, END, lambda end: end)
        changed = rows.filter(pa.array(stays & has_new))
        sessions.put(changed)
        ends.append(changed.select([HASH, *self.keys]).append_column(TIME, changed[END]))
        if bag is None:
            emitted = rows.filter(pa.array(closes)).select(self.output_schema().names)
            yield from emitted.cast(self.output_schema()).to_batches()
        else:
            session_of = merged.session_of[known:]
            bag.put(self._kept(pieces, ~late[session_of]))
            yield from self._close_rows(bag, touched, merged, closes)

    def _session_rows(self, touched: _Touched, members: pa.Table, merged: Merged) -> pa.Table:
        """Return one row per session, as the table of sessions wants it."""
        order = np.argsort(merged.session_of, kind="stable")
        merges = {COUNT: "sum", **(self.merges or {})}
        ordered = members.take(pa.array(order))
        values = merge_groups(ordered, merged.session_of[order], merges)
        owners = pa.array(merged.owner)
        columns = {name: touched.keys[name].take(owners) for name in (HASH, *self.keys)}
        columns |= {START: pa.array(merged.start), END: pa.array(merged.end)}
        return pa.table(columns | {name: values[name] for name in merges})

    def _kept(self, pieces: pa.RecordBatch, wanted: Mask) -> pa.Table:
        rows = pa.Table.from_batches([pieces]).filter(pa.array(wanted))
        return rows.select([HASH, *self.keys, *self.values]).append_column(AT, rows[START])

    def _close_rows(
        self, bag: MultiTable, touched: _Touched, merged: Merged, closes: Mask
    ) -> Iterator[pa.RecordBatch]:
        """Take the rows of closed sessions out of the bag and yield them."""
        closed = np.flatnonzero(closes)
        if len(closed) == 0:
            return
        owners, position = np.unique(merged.owner[closed], return_inverse=True)
        stored, owner = bag.lookup_all(touched.keys.take(pa.array(owners)))
        # Sessions are in order of (owner, start) and do not overlap, so the last one that starts
        # at or before a row is the only one that can hold it.
        starts, until = merged.start[closed], merged.end[closed]
        at = _ints(stored[AT])
        session = last_at_or_before(position, starts, owner, at)
        inside = (session >= 0) & (position[session] == owner) & (at < until[session])
        rows = stored.filter(pa.array(inside))
        session = session[inside]
        bag.put(_as_deleted(rows))
        columns = {name: rows[name] for name in (*self.keys, *self.values)}
        columns |= {START: pa.array(starts[session]), END: pa.array(until[session])}
        schema = self.output_schema()
        yield from pa.table({n: columns[n] for n in schema.names}).cast(schema).to_batches()


@dataclass
class _Touched:
    """The distinct keys of new pieces and of due entries, and the key of each piece."""

    keys: pa.Table
    piece_owner: Ints

    @staticmethod
    def of(keys: tuple[str, ...], pieces: pa.RecordBatch, due: pa.Table) -> _Touched:
        names = [HASH, *keys]
        parts = [pa.Table.from_batches([pieces]).select(names), due.select(names)]
        together = pa.concat_tables(parts, promote_options="permissive")
        first, groups = first_rows(row_codes([one_array(together[key]) for key in keys]))
        return _Touched(together.take(pa.array(first)), groups[: pieces.num_rows])


def last_at_or_before(owners: Ints, starts: Ints, row_owners: Ints, row_times: Ints) -> Ints:
    """Return for each row the last interval with (owner, start) <= (row owner, row time), or -1.

    Intervals are in ascending order.
    """
    count = len(owners)
    all_owners = np.concatenate([owners, row_owners])
    all_times = np.concatenate([starts, row_times])
    is_row = np.concatenate([np.zeros(count, np.int8), np.ones(len(row_owners), np.int8)])
    order = np.lexsort((is_row, all_times, all_owners))
    numbers = np.where(order < count, order, -1)
    last = np.maximum.accumulate(numbers)
    found = np.empty(len(order), np.int64)
    found[order] = last
    return found[count:]


def _as_deleted(rows: pa.Table) -> pa.Table:
    return rows.append_column(DELETED, pa.array(np.ones(rows.num_rows, np.bool_)))


def _ints(column: pa.ChunkedArray | pa.Array) -> Ints:
    return np.array(one_array(column).to_numpy(zero_copy_only=False), dtype=np.int64)
