"""What changed between two checkpoints: files, positions, watermarks, and the rows themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.core.ids import OperatorId
from headgate.state.inspection.changes import (
    CheckpointDiff,
    Extent,
    KeyChanges,
    OperatorDiff,
    RowChanges,
    TableDiff,
    ValueDiff,
)
from headgate.state.inspection.logical import SUBTASK, LogicalTable, StateReader, tables_of
from headgate.state.protocol.records import Manifest, OperatorCheckpointMetadata
from headgate.state.tables.equality import row_codes
from headgate.state.tables.rows import HASH, Ints


@dataclass(frozen=True)
class Side:
    """One of the two checkpoints."""

    manifest: Manifest
    metadata: Mapping[OperatorId, OperatorCheckpointMetadata]


def compare(before: Side, after: Side, reader: StateReader | None) -> CheckpointDiff:
    """Compare two checkpoints of one job. Without a reader no rows are read."""
    old = {(t.operator, t.name): t for t in tables_of(before.metadata)}
    new = {(t.operator, t.name): t for t in tables_of(after.metadata)}
    tables: dict[OperatorId, list[TableDiff]] = {}
    for operator, name in sorted(old.keys() | new.keys()):
        pair = (old.get((operator, name)), new.get((operator, name)))
        tables.setdefault(operator, []).append(_table_diff(name, *pair, reader))
    return CheckpointDiff(
        before=before.manifest.epoch,
        after=after.manifest.epoch,
        created_ms_before=before.manifest.created_ms,
        created_ms_after=after.manifest.created_ms,
        parallelism_before=before.manifest.parallelism,
        parallelism_after=after.manifest.parallelism,
        same_query=before.manifest.fingerprint == after.manifest.fingerprint,
        watermark_before=before.manifest.cut.watermark,
        watermark_after=after.manifest.cut.watermark,
        operators=tuple(
            _operator_diff(
                operator,
                before.metadata.get(operator),
                after.metadata.get(operator),
                tuple(tables.get(operator, ())),
            )
            for operator in sorted(before.metadata.keys() | after.metadata.keys())
        ),
    )


def _operator_diff(
    operator: OperatorId,
    before: OperatorCheckpointMetadata | None,
    after: OperatorCheckpointMetadata | None,
    tables: tuple[TableDiff, ...],
) -> OperatorDiff:
    old = {} if before is None else before.globals
    new = {} if after is None else after.globals
    known = after or before
    return OperatorDiff(
        operator=operator,
        kind="" if known is None else known.kind,
        before=before is not None,
        after=after is not None,
        watermark_before=None if before is None else before.watermark,
        watermark_after=None if after is None else after.watermark,
        values=tuple(
            ValueDiff(name=name, before=old.get(name), after=new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ),
        tables=tables,
    )


def _table_diff(
    name: str, before: LogicalTable | None, after: LogicalTable | None, reader: StateReader | None
) -> TableDiff:
    old = {} if before is None else before.runs
    new = {} if after is None else after.runs
    known = after or before
    return TableDiff(
        name=name,
        keys=() if known is None else known.state.keys,
        runs_added=tuple(sorted(new.keys() - old.keys())),
        runs_removed=tuple(sorted(old.keys() - new.keys())),
        before=_extent(before),
        after=_extent(after),
        changes=None if reader is None else _changes(before, after, reader),
    )


def _extent(table: LogicalTable | None) -> Extent:
    runs = [] if table is None else list(table.runs.values())
    return Extent(
        runs=len(runs), rows=sum(run.rows for run in runs), bytes=sum(run.bytes for run in runs)
    )


def _changes(
    before: LogicalTable | None, after: LogicalTable | None, reader: StateReader
) -> KeyChanges | RowChanges | None:
    known = after or before
    if known is None or (before and after and not _comparable(before, after)):
        return None
    old, new = _rows(before, reader, known), _rows(after, reader, known)
    if known.state.kind == "keyed" and not known.state.bag:
        return key_changes(old, new, known.state.keys)
    return row_changes(old, new)


def _comparable(before: LogicalTable, after: LogicalTable) -> bool:
    same_columns: bool = before.stored_schema.equals(after.stored_schema)
    return same_columns and before.state.keys == after.state.keys


def _rows(table: LogicalTable | None, reader: StateReader, known: LogicalTable) -> pa.Table:
    """Return the logical rows without what depends on the parallelism."""
    batches = [] if table is None else list(reader.rows(table))
    rows = pa.Table.from_batches(batches, schema=known.schema)
    return rows.drop_columns([HASH, SUBTASK])


def key_changes(before: pa.Table, after: pa.Table, keys: Iterable[str]) -> KeyChanges:
    """Compare two tables that hold each key at most once."""
    old_keys, new_keys = _codes(before, after, list(keys))
    old_rows, new_rows = _codes(before, after, before.column_names)
    _, old_at, new_at = np.intersect1d(old_keys, new_keys, assume_unique=True, return_indices=True)
    changed = int(np.count_nonzero(old_rows[old_at] != new_rows[new_at]))
    return KeyChanges(
        added=after.num_rows - len(new_at),
        changed=changed,
        removed=before.num_rows - len(old_at),
        unchanged=len(old_at) - changed,
    )


def row_changes(before: pa.Table, after: pa.Table) -> RowChanges:
    """Compare two tables as bags of rows."""
    old, new = _codes(before, after, before.column_names)
    size = 1 + int(max(old.max(initial=-1), new.max(initial=-1)))
    more = np.bincount(new, minlength=size) - np.bincount(old, minlength=size)
    added = int(more[more > 0].sum())
    return RowChanges(
        added=added, removed=int(-more[more < 0].sum()), unchanged=after.num_rows - added
    )


def _codes(before: pa.Table, after: pa.Table, columns: list[str]) -> tuple[Ints, Ints]:
    """Number the distinct values of the columns in both tables."""
    both = pa.concat_tables([before, after])
    if both.num_rows == 0:
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    codes = row_codes([_one_array(both[name]) for name in columns])
    return codes[: before.num_rows], codes[before.num_rows :]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined
