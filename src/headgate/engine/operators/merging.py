"""Merging partial aggregates in Arrow, with Spark's meaning of null."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# A partial over no non-null value is null and merges as if absent: Arrow's kernels skip nulls, and
# with min_count=1 the merge of nothing but nulls is null again.
_ARROW = {
    "sum": ("sum", pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)),
    "min": ("min", pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)),
    "max": ("max", pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)),
    "bool_and": ("all", pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)),
    "bool_or": ("any", pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)),
}

MERGED_IN_ARROW = frozenset(_ARROW)


def merge_rows(
    rows: pa.Table, keys: list[str], merges: dict[str, str], schema: pa.Schema
) -> pa.Table:
    """Return one row per distinct `keys`, partials merged, columns as in `schema`.

    Raises nothing on overflow: Spark has already widened sums to bigint or decimal.
    """
    if rows.num_rows == 0:
        return rows.select(schema.names).cast(schema)
    aggregates = [(name, *_ARROW[how]) for name, how in merges.items()]
    grouped = rows.group_by(keys, use_threads=False).aggregate(aggregates)
    renamed = {f"{name}_{_ARROW[how][0]}": name for name, how in merges.items()}
    grouped = grouped.rename_columns([renamed.get(n, n) for n in grouped.column_names])
    return grouped.select(schema.names).cast(schema)
