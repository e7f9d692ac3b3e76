"""Updating aggregates kept as rows: whatever the aggregate is, Spark computes it over its rows.

The state is a bag: distinct rows of the kept columns per key, each with how often it is there.
For every key that changed, the rows before and the rows after go out, marked `_which`; Spark
aggregates both. The cost follows the rows of the changed keys, not the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.engine.task.batches import one_array, only_batch
from headgate.engine.task.merging import first_rows, merge_groups, merge_pair
from headgate.engine.task.subtask import Subtask
from headgate.operators.updating_aggregate.task import expiry_horizon
from headgate.state.tables import KeyedTable, MultiTable
from headgate.state.tables.equality import pair_codes, row_codes
from headgate.state.tables.rows import HASH, TIME

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEYS_TABLE, ROWS_TABLE = "keys", "rows"
# How often a row came in this micro-batch (negative: retracted), and how often it is in the state.
TIMES, COUNT = "_n", "_count"
WHICH = "_which"
BEFORE, AFTER = 0, 1
OUTPUT_ROWS_MAX = 100_000


@dataclass
class _Bag:
    """The distinct rows of some keys, before and after the micro-batch."""

    # Position of the row's key.
    owner: Ints
    values: pa.Table
    before: Ints
    after: Ints

    def changed(self) -> Ints:
        return np.flatnonzero(self.before != self.after)


@dataclass
class UpdatingRowsTask:
    """Rows arrive as (keys, values, `_n`, `_time`, `_hash`)."""

    schema: pa.Schema
    keys: tuple[str, ...]
    values: tuple[str, ...]
    ttl_us: int
    input_updating: bool

    def output_schema(self) -> pa.Schema:
        fields = [self.schema.field(name) for name in (*self.keys, *self.values)]
        return pa.schema([*fields, pa.field(WHICH, pa.int32()), pa.field(TIME, pa.int64())])

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = [pa.field(HASH, pa.int32()), *(self.schema.field(key) for key in self.keys)]
        known = subtask.keyed_table(
            KEYS_TABLE, pa.schema([*fields, pa.field(TIME, pa.int64())]), list(self.keys)
        )
        values = [self.schema.field(name) for name in self.values]
        bags = subtask.multi_table(
            ROWS_TABLE, pa.schema([*fields, *values, pa.field(COUNT, pa.int64())]), list(self.keys)
        )
        horizon = expiry_horizon(subtask.context.emitted_watermark, self.ttl_us)
        rows = only_batch(batches, self.schema)
        if rows.num_rows:
            yield from self._merge(known, bags, rows, horizon)
        if horizon is not None and horizon > known.horizon:
            expired = known.older_than(horizon)
            if expired.num_rows:
                yield from self._forget(known, bags, expired)
            known.expire(horizon)

    def _merge(
        self, known: KeyedTable, bags: MultiTable, rows: pa.RecordBatch, horizon: int | None
    ) -> Iterator[pa.RecordBatch]:
        first, groups = first_rows(row_codes([rows.column(key) for key in self.keys]))
        keys = pa.Table.from_batches([rows.take(pa.array(first))])
        values, found = known.lookup(keys)
        old_time = one_array(values[TIME])
        expired = np.zeros(keys.num_rows, np.bool_)
        if horizon is not None and not self.input_updating:
            # An expired key that comes back starts anew; what it was is still to be retracted.
            expired = _mask(pc.fill_null(pc.less(old_time, horizon), False))
            old_time = pc.if_else(pa.array(expired), pa.scalar(None, pa.int64()), old_time)
        newest = merge_groups(pa.Table.from_batches([rows]), groups, {TIME: "max"})[TIME]
        time = merge_pair(old_time, one_array(newest), "max")
        if horizon is not None:
            time = pc.max_element_wise(time, pa.scalar(horizon, pa.int64()))
        bag = self._bag(bags, keys, rows, groups, expired)
        self._put_rows(bags, keys, bag)
        alive = np.bincount(bag.owner, weights=bag.after, minlength=keys.num_rows) > 0
        columns = {HASH: keys[HASH], **{key: keys[key] for key in self.keys}, TIME: time}
        entries = pa.table(columns | {"_deleted": pa.array(~alive)})
        known.put(entries.filter(pa.array(alive | _mask(found))))
        yield from self._output(keys, bag, time)

    def _bag(
        self, bags: MultiTable, keys: pa.Table, rows: pa.RecordBatch, groups: Ints, expired: Mask
    ) -> _Bag:
        stored, owner = bags.lookup_all(keys)
        owners = np.concatenate([owner, groups])
        codes = owners
        together = pa.concat_tables(
            [stored.select(list(self.values)), pa.table(rows.select(list(self.values)))]
        )
        if self.values:
            columns = [one_array(together[name]) for name in self.values]
            codes = pair_codes(owners, row_codes(columns))
        first, ids = first_rows(codes)
        size, known = len(first), stored.num_rows
        before = _sums(ids[:known], one_array(stored[COUNT]), size)
        change = _sums(ids[known:], rows.column(TIMES), size)
        kept = np.where(expired[owners[first]], 0, before)
        # A retraction of a row that is not there has no effect.
        after = np.maximum(kept + change, 0)
        return _Bag(owners[first], together.take(pa.array(first)), before, after)

    def _put_rows(self, bags: MultiTable, keys: pa.Table, bag: _Bag) -> None:
        changed = bag.changed()
        gone = changed[bag.before[changed] > 0]
        come = changed[bag.after[changed] > 0]
        bags.put(self._stored(keys, bag, gone, bag.before, deleted=True))
        bags.put(self._stored(keys, bag, come, bag.after, deleted=False))

    def _stored(
        self, keys: pa.Table, bag: _Bag, chosen: Ints, counts: Ints, *, deleted: bool
    ) -> pa.Table:
        owners, picked = pa.array(bag.owner[chosen]), pa.array(chosen)
        columns = {name: keys[name].take(owners) for name in (HASH, *self.keys)}
        columns |= {name: bag.values[name].take(picked) for name in self.values}
        columns[COUNT] = pa.array(counts[chosen])
        columns["_deleted"] = pa.array(np.full(len(chosen), deleted))
        return pa.table(columns)

    def _output(self, keys: pa.Table, bag: _Bag, time: pa.Array) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the changed keys, each as often as it is there."""
        touched = np.zeros(keys.num_rows, np.bool_)
        touched[bag.owner[bag.changed()]] = True
        members = np.flatnonzero(touched[bag.owner])
        schema = self.output_schema()
        for which, counts in ((BEFORE, bag.before), (AFTER, bag.after)):
            repeated = np.repeat(members, counts[members])
            for start in range(0, len(repeated), OUTPUT_ROWS_MAX):
                chosen = repeated[start : start + OUTPUT_ROWS_MAX]
                owners, picked = pa.array(bag.owner[chosen]), pa.array(chosen)
                columns = {key: keys[key].take(owners) for key in self.keys}
                columns |= {name: bag.values[name].take(picked) for name in self.values}
                columns[WHICH] = pa.array(np.full(len(chosen), which, np.int32))
                columns[TIME] = time.take(owners)
                yield from pa.table(columns).cast(schema).combine_chunks().to_batches()

    def _forget(
        self, known: KeyedTable, bags: MultiTable, expired: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        stored, owner = bags.lookup_all(expired)
        before = np.array(one_array(stored[COUNT]).to_numpy(zero_copy_only=False), np.int64)
        values = stored.select(list(self.values))
        bag = _Bag(owner, values, before, np.zeros(len(before), np.int64))
        self._put_rows(bags, expired, bag)
        known.delete(expired)
        yield from self._output(expired, bag, one_array(expired[TIME]))


def _sums(ids: Ints, numbers: pa.Array, size: int) -> Ints:
    weights = numbers.to_numpy(zero_copy_only=False)
    # Sums of counts are exact as doubles as long as no key has 2**53 rows.
    return np.bincount(ids, weights=weights, minlength=size).astype(np.int64)


def _mask(array: pa.Array) -> Mask:
    return np.array(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
