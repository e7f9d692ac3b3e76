"""Merging partial aggregates in Arrow, with Spark's meaning of null and NaN.

A partial over no non-null value is null and merges as if it were absent. NaN is the greatest
number. Two shapes: `merge_pair` merges two columns row by row (old state, new partials), and
`merge_rows` / `merge_groups` merge the rows of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.errors import UserError
from headgate.engine.task.batches import one_array
from headgate.state.tables.equality import row_codes

Ints = npt.NDArray[np.int64]

# With min_count=1 the merge of nothing but nulls is null again.
_OPTIONS = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
_ARROW = {"sum": "sum", "min": "min", "max": "max", "bool_and": "all", "bool_or": "any"}
_BITS: dict[str, tuple[np.ufunc, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
}

_DECIMAL_DIGITS_MAX = 76

MERGED_IN_ARROW = frozenset(_ARROW) | frozenset(_BITS)


def merge_rows(
    rows: pa.Table, keys: Sequence[str], merges: Mapping[str, str], schema: pa.Schema
) -> pa.Table:
    """Return one row per distinct `keys`, partials merged, columns as in `schema`.

    Raises `UserError` if a sum no longer fits its type, as Spark does.
    """
    if rows.num_rows == 0:
        return rows.select(schema.names).cast(schema)
    if any(how in _BITS for how in merges.values()) or not _plain_keys(rows, keys):
        return _merge_by_codes(rows, keys, merges, schema)
    aggregates = [(name, _ARROW[how], _OPTIONS) for name, how in merges.items()]
    source, nan_checks = _with_nan_checks(_as_numbers(rows, merges), merges)
    aggregates += [(check, "any", _OPTIONS) for check in nan_checks.values()]
    source, sum_checks = _with_sum_checks(source, merges)
    aggregates += [(check, "sum", _OPTIONS) for check in sum_checks.values()]
    grouped = source.group_by(list(keys), use_threads=False).aggregate(aggregates)
    columns = {name: grouped[f"{name}_{_ARROW[how]}"] for name, how in merges.items()}
    for name, check in nan_checks.items():
        columns[name] = _nan_where(grouped[f"{check}_any"], columns[name])
    for name, check in sum_checks.items():
        _check_sums(columns[name], grouped[f"{check}_sum"], schema.field(name).type)
    columns |= {key: grouped[key] for key in keys}
    for name, how in merges.items():
        columns[name] = _fitted(columns[name], how, schema.field(name).type)
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def merge_groups(rows: pa.Table, groups: Ints, merges: Mapping[str, str]) -> pa.Table:
    """Return one row per group, merged; only the columns of `merges`.

    Groups are numbered from 0 in the order of their first rows, and that is the order returned.
    """
    columns: dict[str, pa.Array] = {}
    plain = {name: how for name, how in merges.items() if how in _ARROW}
    if plain:
        number = pa.array(groups)
        source = pa.table({"_group": number} | {name: rows[name] for name in plain})
        schema = pa.schema(
            [("_group", pa.int64()), *((n, rows.schema.field(n).type) for n in plain)]
        )
        merged = merge_rows(source, ["_group"], plain, schema)
        columns = {name: merged[name] for name in plain}
    for name, how in merges.items():
        if how in _BITS:
            columns[name] = _reduce_bits(one_array(rows[name]), groups, how)
    return pa.table({name: columns[name] for name in merges})


def merge_pair(old: pa.Array, new: pa.Array, how: str) -> pa.Array:
    """Merge two partials row by row; a null stands for nothing. Both have the same type.

    Raises `UserError` if a sum no longer fits its type, as Spark does.
    """
    try:
        merged = _PAIR[how](old, new)
    except pa.ArrowInvalid as error:
        raise overflow(how, new.type, str(error)) from error
    if old.null_count == 0 and new.null_count == 0:
        return merged
    return pc.coalesce(merged, old, new)


def overflow(how: str, kind: pa.DataType, detail: str) -> UserError:
    """Return the error of a merge whose value no longer fits, whoever has merged."""
    return UserError(
        f"a {how} no longer fits into {kind}: use a wider type or an average",
        code="overflow",
        detail=detail,
    )


def _add(old: pa.Array, new: pa.Array) -> pa.Array:
    kind = new.type
    if pa.types.is_decimal(kind):
        # Arrow widens the sum by a digit, which 38 digits do not allow.
        wide = pa.decimal256(kind.precision, kind.scale)
        return pc.add(old.cast(wide), new.cast(wide)).cast(kind)
    return pc.add_checked(old, new)


def _extreme(name: str) -> Callable[[pa.Array, pa.Array], pa.Array]:
    element_wise = getattr(pc, f"{name}_element_wise")

    def merge(old: pa.Array, new: pa.Array) -> pa.Array:
        kind = new.type
        if pa.types.is_boolean(kind):
            return (pc.or_ if name == "max" else pc.and_)(old, new)
        if pa.types.is_timestamp(kind):
            return element_wise(old.cast(pa.int64()), new.cast(pa.int64())).cast(kind)
        merged = element_wise(old, new)
        if name == "max" and pa.types.is_floating(kind):
            nan = pc.or_(pc.fill_null(pc.is_nan(old), False), pc.fill_null(pc.is_nan(new), False))
            merged = _nan_where(nan, merged)
        return merged

    return merge


_PAIR: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "sum": _add,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "bool_and": pc.and_,
    "bool_or": pc.or_,
    "bit_and": pc.bit_wise_and,
    "bit_or": pc.bit_wise_or,
    "bit_xor": pc.bit_wise_xor,
}


def _plain_keys(rows: pa.Table, keys: Sequence[str]) -> bool:
    """Whether Arrow's own grouping accepts the keys."""
    kinds = [rows.schema.field(key).type for key in keys]
    return bool(kinds) and not any(pa.types.is_nested(k) or pa.types.is_null(k) for k in kinds)


def _merge_by_codes(
    rows: pa.Table, keys: Sequence[str], merges: Mapping[str, str], schema: pa.Schema
) -> pa.Table:
    if keys:
        codes = row_codes([one_array(rows[key]) for key in keys])
        first, groups = first_rows(codes)
    else:
        first, groups = np.zeros(1, np.int64), np.zeros(rows.num_rows, np.int64)
    merged = merge_groups(rows, groups, merges)
    picked = rows.select(list(keys)).take(pa.array(first))
    columns = {n: merged[n] if n in merges else picked[n] for n in schema.names}
    return pa.table(columns).cast(schema)


def first_rows(codes: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each distinct code, and the codes renumbered in that order."""
    encoded = pc.dictionary_encode(pa.array(codes))
    groups: Ints = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    # Numbers appear in ascending order, so a row is the first of its group where they rise.
    first = np.flatnonzero(np.diff(np.maximum.accumulate(groups), prepend=-1))
    return first, groups


def _as_numbers(rows: pa.Table, merges: Mapping[str, str]) -> pa.Table:
    """Show durations as numbers of microseconds: Arrow does not group them."""
    for name in merges:
        if pa.types.is_duration(rows.schema.field(name).type):
            position = rows.schema.get_field_index(name)
            rows = rows.set_column(position, name, rows[name].cast(pa.int64()))
    return rows


def _with_nan_checks(rows: pa.Table, merges: Mapping[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """Add a column that marks NaN beside every maximum of floats: Arrow's maximum passes it by."""
    checks: dict[str, str] = {}
    for name, how in merges.items():
        if how == "max" and pa.types.is_floating(rows.schema.field(name).type):
            marks = pc.is_nan(rows[name])
            if pc.any(marks).as_py():
                checks[name] = f"_nan_{name}"
                rows = rows.append_column(checks[name], marks)
    return rows, checks


def _with_sum_checks(rows: pa.Table, merges: Mapping[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """Let sums be taken so that one which does not fit is seen: Arrow's wrap around in silence.

    Decimals are summed in twice their width. Beside whole numbers that might get too large their
    upper halves are summed: see `_check_sums`.
    """
    checks: dict[str, str] = {}
    for name, how in merges.items():
        column, kind = rows[name], rows.schema.field(name).type
        if how != "sum":
            continue
        if pa.types.is_decimal(kind):
            wide = column.cast(pa.decimal256(_DECIMAL_DIGITS_MAX, kind.scale))
            rows = rows.set_column(rows.schema.get_field_index(name), name, wide)
        elif pa.types.is_integer(kind) and not _surely_fits(column):
            checks[name] = f"_upper_{name}"
            upper = pc.shift_right(column.cast(pa.int64()), 32)
            rows = rows.append_column(checks[name], upper)
    return rows, checks


def _surely_fits(column: pa.ChunkedArray) -> bool:
    """Whether no sum over values of the column can leave 64 bits."""
    bounds = pc.min_max(column).as_py()
    greatest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    return bool(greatest * len(column) < 2**63)


def _check_sums(sums: pa.ChunkedArray, upper: pa.ChunkedArray, kind: pa.DataType) -> None:
    """Raise if a sum has wrapped around, given the sum of the upper halves of its numbers.

    A number is its upper half times 2**32 and its lower half, which is not negative. The sum is
    exact modulo 2**64, so what it has beyond the upper halves is the sum of the lower ones as long
    as that is below 2**64: which more than 2**32 rows would be needed for.
    """
    total = one_array(pc.fill_null(sums, 0)).to_numpy(zero_copy_only=False)
    high = one_array(pc.fill_null(upper, 0)).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        low = (total - (high << 32)).view(np.uint64)
    # The carry of the lower halves goes to the upper ones; together they must fit into 32 bits.
    whole = high + (low >> np.uint64(32)).astype(np.int64)
    if ((whole < -(2**31)) | (whole >= 2**31)).any():
        raise overflow("sum", kind, "partial sums were merged beyond 64 bits")


def _fitted(column: pa.ChunkedArray, how: str, kind: pa.DataType) -> pa.ChunkedArray:
    """Return the merged column in its type."""
    if how != "sum" or column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise overflow(how, kind, str(error)) from error


def _nan_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(mask, False), pa.scalar(float("nan"), values.type), values)


def _reduce_bits(column: pa.Array, groups: Ints, how: str) -> pa.Array:
    operation, identity = _BITS[how]
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    values = np.array(column.fill_null(identity).to_numpy(zero_copy_only=False))
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    reduced = operation.reduceat(values[order], starts)
    known = np.logical_or.reduceat(valid[order], starts)
    return pa.array(reduced, type=column.type, mask=~known)
