"""When two keys are the same key: SQL grouping, vectorised, for every type.

Null equals null, NaN equals NaN, 0.0 equals -0.0; structs, arrays and maps are equal when their
parts are. Two tools: `equal_rows` compares pairs of rows, `row_codes` numbers the distinct rows
of one set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.state.tables.rows import Ints, Mask


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Mask:
    """Compare row i of the left columns with row i of the right columns."""
    same = np.ones(len(left[0]), dtype=np.bool_)
    for one, other in zip(left, right, strict=True):
        same &= _equal_columns(one, other)
    return same


def _equal_columns(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_null(left.type):
        return np.ones(len(left), dtype=np.bool_)
    if pa.types.is_nested(left.type):
        codes = column_codes(pa.concat_arrays([left, right]))
        return np.asarray(codes[: len(left)] == codes[len(left) :])
    same = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if same.null_count == 0:
        return _mask(same)
    both_null = pc.and_(left.is_null(), right.is_null())
    return _mask(pc.fill_null(same, False)) | _mask(both_null)


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def row_codes(columns: Sequence[pa.Array]) -> Ints:
    """Return numbers that are equal exactly where the rows are equal."""
    codes = column_codes(columns[0])
    for column in columns[1:]:
        codes = pair_codes(codes, column_codes(column))
    return codes


def pair_codes(left: Ints, right: Ints) -> Ints:
    """Number the distinct pairs of two numberings."""
    if len(left) == 0:
        return left
    # Both are smaller than the number of rows, which is below 2**31: the product fits.
    return _dense(pa.array(left * (int(right.max()) + 1) + right))


def column_codes(column: pa.Array) -> Ints:
    """Return numbers, from 0, that are equal exactly where the values of a column are equal."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_floating(kind):
        return _dense(_float_bits(column))
    if pa.types.is_struct(kind):
        codes = _validity(column)
        for part in column.flatten():
            codes = pair_codes(codes, column_codes(part))
        return codes
    if pa.types.is_map(kind):
        # An array of entries; Arrow stores it just so.
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return _list_codes(column.cast(pa.list_(entry)))
    if pa.types.is_nested(kind):
        return _list_codes(column)
    return _dense(column)


def _dense(column: pa.Array) -> Ints:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _validity(column: pa.Array) -> Ints:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.int64)


def _float_bits(column: pa.Array) -> pa.Array:
    valid = _validity(column).astype(np.bool_)
    filled = column.cast(pa.float64()).fill_null(0.0)
    numbers = np.array(filled.to_numpy(zero_copy_only=False), dtype=np.float64)
    numbers += 0.0  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan  # one of the many bit patterns
    return pa.array(numbers.view(np.int64), mask=~valid)


def _list_codes(column: pa.Array) -> Ints:
    """Number lists by the sequence of the codes of their values, taken as bytes."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    values = column_codes(pc.list_flatten(column))
    offsets: npt.NDArray[np.int64] = np.zeros(len(column) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    offsets *= 8
    contents = pa.Array.from_buffers(
        pa.large_binary(),
        len(column),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))],
    )
    return pair_codes(_dense(contents), _validity(column))
