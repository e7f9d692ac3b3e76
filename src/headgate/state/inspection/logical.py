"""The rows of a checkpoint's state tables as its operators see them, without the operators.

Of all the rows in the runs those count that an operator would find after a restore: of a keyed
table the newest row of each key, nothing that was deleted or has expired, and of a shared run only
the rows that belong to the subtask. The tables themselves decide that; here they are only opened.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
import pyarrow as pa

from headgate.core.checkpoint import RunRef, TableState
from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.ids import OperatorId, Subtask
from headgate.core.ports import ObjectStore
from headgate.state.protocol.records import OperatorCheckpointMetadata
from headgate.state.tables import (
    KeyedTable,
    MultiTable,
    TableIo,
    TimeTable,
    decode_schema,
    mapped,
    version_from_state,
)
from headgate.state.tables.rows import DELETED, HASH

SUBTASK = "_subtask"
# Later than any time that a row can have.
_TIME_END = 2**63 - 1


@dataclass(frozen=True)
class LogicalTable:
    """One state table of one operator, all subtasks together."""

    operator: OperatorId
    operator_kind: str
    # The table as each subtask sees it; never empty.
    parts: tuple[tuple[Subtask, TableState], ...]

    @property
    def state(self) -> TableState:
        """What the parts have in common: name, kind, schema, keys."""
        return self.parts[0][1]

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def stored_schema(self) -> pa.Schema:
        return decode_schema(self.state.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the logical rows: hash and subtask last, no mark of deletion."""
        names = [n for n in self.stored_schema.names if n not in (HASH, DELETED)]
        fields = [self.stored_schema.field(name) for name in (*names, HASH)]
        return pa.schema([*fields, pa.field(SUBTASK, pa.int32())])

    @property
    def runs(self) -> dict[str, RunRef]:
        """The files behind the table, each once: subtasks may share one."""
        return {run.path: run for _, state in self.parts for run in state.runs}


def tables_of(
    metadata: Mapping[OperatorId, OperatorCheckpointMetadata],
) -> tuple[LogicalTable, ...]:
    """Return the state tables of a checkpoint, ordered by operator and name."""
    found: dict[tuple[OperatorId, str], list[tuple[Subtask, TableState]]] = {}
    for operator, entry in metadata.items():
        for subtask in entry.subtasks:
            for table in subtask.tables:
                found.setdefault((operator, table.name), []).append((subtask.subtask, table))
    for (operator, name), parts in found.items():
        if len({(t.kind, t.schema, t.keys, t.bag) for _, t in parts}) > 1:
            raise CheckpointInvalid(
                f"operator {operator}: the subtasks disagree about what table {name} is",
                code="inconsistent",
            )
    return tuple(
        LogicalTable(operator, metadata[operator].kind, tuple(found[operator, name]))
        for operator, name in sorted(found)
    )


class StateReader:
    """Reads tables of one job through a cache that is removed at the end (`with`)."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._folder = tempfile.TemporaryDirectory(prefix="headgate-state-")

    def __enter__(self) -> StateReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def rows(self, table: LogicalTable) -> Iterator[pa.RecordBatch]:
        """Yield the logical rows, with the columns of `table.schema`, in pieces of bounded size.

        Every file is checked against its checksum: raises `CheckpointInvalid` if one is damaged.
        """
        if table.state.kind == "keyed" and not table.state.keys:
            raise UserError(
                f"table {table.name} of {table.operator} does not say what its keys are: it was "
                "written by an earlier version; look at a later checkpoint",
                code="keys_unknown",
            )
        for subtask, state in table.parts:
            io = self._io(table, subtask)
            try:
                for batch in _rows_of_subtask(io, state):
                    if batch.num_rows:
                        yield _shown(batch, table.schema, subtask)
            finally:
                mapped.retain(io.owner(state.name), ())

    def _io(self, table: LogicalTable, subtask: Subtask) -> TableIo:
        return TableIo(
            store=self._store,
            scratch_dir=self._folder.name,
            cache_dir=f"{self._folder.name}/cache",
            verify_checksums=True,
            # Only names of new files depend on it, and none is written.
            generation=0,
            operator=table.operator,
            subtask=subtask,
        )


def _rows_of_subtask(io: TableIo, state: TableState) -> Iterator[pa.RecordBatch]:
    version = replace(version_from_state(state), horizon=state.horizon)
    schema = decode_schema(state.schema)
    if state.kind == "time":
        # No row of a time table hides another, so it is read run by run.
        for run in state.runs:
            one = TimeTable.open(io, replace(version, runs=(run,)), schema)
            yield from one.read(state.horizon, _TIME_END).to_batches()
        return
    kind = MultiTable if state.bag else KeyedTable
    yield from kind.open(io, version, schema, state.keys).scan_slices()


def _shown(batch: pa.RecordBatch, schema: pa.Schema, subtask: Subtask) -> pa.RecordBatch:
    owner = pa.array(np.full(batch.num_rows, subtask, np.int32))
    columns = [owner if name == SUBTASK else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
