"""Vectorised helpers over the rows of a table: one record batch in, one record batch out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.checkpoint import HashFilter

HASH = "_hash"
TIME = "_time"
DELETED = "_deleted"

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


def table_schema(schema: pa.Schema) -> pa.Schema:
    """Return the stored form of a schema: no metadata, every column nullable, types plain.

    Nullability is not a promise that files or lookups of absent keys could keep. Dictionaries
    differ from batch to batch, so they are stored as their values.
    """
    fields = [pa.field(field.name, _plain(field.type)) for field in schema]
    plain = pa.schema(fields)
    if len(set(plain.names)) != len(plain.names):
        raise ValueError(f"column names of a state table must differ: {plain.names}")
    if HASH not in plain.names or plain.field(HASH).type != pa.int32():
        raise ValueError(f"a state table needs an int32 column {HASH}: {plain}")
    if TIME in plain.names and plain.field(TIME).type != pa.int64():
        raise ValueError(f"the column {TIME} of a state table is int64 microseconds: {plain}")
    return plain


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def conform(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows as one record batch of exactly this schema (columns by name)."""
    arrays = []
    for field in schema:
        column = rows.column(field.name)
        if column.type != field.type:
            column = column.cast(field.type)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            # Arrow keeps chunks apart only if 32-bit offsets would overflow.
            raise ValueError(f"column {field.name} has more than 2 GiB of values in one batch")
        arrays.append(column)
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if HASH in schema.names and batch.column(HASH).null_count:
        raise ValueError(f"the column {HASH} must not be null")
    return batch


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Join record batches of one schema into one."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return empty(schema)
    return conform(pa.Table.from_batches(batches, schema=schema), schema)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def hashes(batch: pa.RecordBatch) -> Hashes:
    """Return the hash column as a view, no copy."""
    return np.asarray(batch.column(HASH).to_numpy(zero_copy_only=True))


def times(batch: pa.RecordBatch) -> Ints:
    """Return the time column as a view, no copy. Only if it has no nulls."""
    return np.asarray(batch.column(TIME).to_numpy(zero_copy_only=True))


def hash_order(values: Hashes) -> Ints:
    """Return the stable order that sorts int32 hashes.

    The position rides in the low half of a 64-bit value: sorting these is vectorised and about
    ten times faster than numpy's stable argsort.
    """
    packed = values.astype(np.int64) << 32
    packed |= np.arange(len(values), dtype=np.int64)
    packed.sort()
    packed &= 0xFFFFFFFF
    return packed


def is_sorted(values: npt.NDArray[np.generic]) -> bool:
    return len(values) < 2 or bool((values[:-1] <= values[1:]).all())  # type: ignore[operator]


def filter_mask(values: Hashes, filters: Sequence[HashFilter]) -> Mask | None:
    """Return which hashes satisfy every filter; None means all of them."""
    mask: Mask | None = None
    for each in filters:
        # numpy's remainder has the sign of the divisor, so this is pmod.
        one = np.remainder(values, np.int32(each.parallelism)) == each.subtask
        mask = one if mask is None else mask & one
    return mask


def select(batch: pa.RecordBatch, mask: Mask | None) -> pa.RecordBatch:
    if mask is None or mask.all():
        return batch
    return batch.filter(pa.array(mask))


def hash_range(batch: pa.RecordBatch) -> tuple[int | None, int | None]:
    return _range(batch.column(HASH))


def time_range(batch: pa.RecordBatch) -> tuple[int | None, int | None]:
    """Return min and max time; (None, None) where there is no time, or a row without one.

    Tombstones do not count: that they expire makes no difference.
    """
    if TIME not in batch.schema.names:
        return None, None
    column = batch.column(TIME)
    if DELETED in batch.schema.names:
        column = column.filter(pc.invert(pc.fill_null(batch.column(DELETED), False)))
    return _range(column)


def _range(column: pa.Array) -> tuple[int | None, int | None]:
    if column.null_count or len(column) == 0:
        return None, None
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()
