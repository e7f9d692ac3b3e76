"""What the kinds of tables share: opening files, collecting changes, ending batches and epochs.

A table object lives inside one task attempt. It reads files named by a version, writes files
under new names, and returns the next version; it never changes a file, and deletes none but copies
in the local cache, so the same attempt may be made twice, or half, without harm.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headgate.core.checkpoint import HashFilter, RunRef
from headgate.core.errors import CheckpointInvalid
from headgate.state.tables.io import TableIo, WriteStats
from headgate.state.tables.mapped import OpenFile
from headgate.state.tables.merging import live_rows, merge_start, units
from headgate.state.tables.rows import (
    conform,
    filter_mask,
    hashes,
    select,
    table_schema,
)
from headgate.state.tables.version import (
    ScratchRun,
    TableKind,
    TableVersion,
    decode_schema,
    encode_schema,
)


@dataclass(frozen=True)
class Part:
    """Rows in the order of a run, and which of them belong to this subtask."""

    batch: pa.RecordBatch
    filters: tuple[HashFilter, ...] = ()

    def live_bytes(self) -> int:
        share = max((each.parallelism for each in self.filters), default=1)
        return int(self.batch.nbytes) // share


class StateTable(ABC):
    """One table of one subtask during one micro-batch."""

    kind: ClassVar[TableKind]
    # Runs are sorted by this column.
    order: ClassVar[str]

    def __init__(
        self, io: TableIo, version: TableVersion | None, schema: pa.Schema, name: str | None
    ) -> None:
        self.schema = table_schema(schema)
        self._io = io
        self._version = self._checked(version, name)
        # The changes of this batch, oldest first: in the order of a run, and not yet in any.
        self._settled: list[OpenFile] = []
        self._pending: list[pa.RecordBatch] = []
        io.release_others(self._version)

    def _checked(self, version: TableVersion | None, name: str | None) -> TableVersion:
        text = encode_schema(self.schema)
        if version is None:
            return TableVersion(name=name or self.kind, kind=self.kind, schema=text)
        if version.kind != self.kind or (name is not None and version.name != name):
            raise CheckpointInvalid(
                f"table {version.name} is a {version.kind} table; its operator expects "
                f"a {self.kind} table {name or ''}",
                code="inconsistent",
            )
        if version.schema != text and not decode_schema(version.schema).equals(self.schema):
            raise CheckpointInvalid(
                f"table {version.name} holds rows of {decode_schema(version.schema)}; "
                f"its operator expects {self.schema}",
                code="inconsistent",
            )
        return replace(version, schema=text)

    @property
    def version(self) -> TableVersion:
        """The version this object started from, or the last one that it returned."""
        return self._version

    @property
    def horizon(self) -> int:
        return self._version.horizon

    def _raise_horizon(self, time_us: int) -> None:
        if time_us > self._version.horizon:
            self._version = replace(self._version, horizon=time_us)

    def _add(self, rows: pa.Table | pa.RecordBatch) -> None:
        if rows.num_rows:
            self._pending.append(conform(rows, self.schema))

    def _batch_files(self) -> list[OpenFile]:
        """Return what this batch has changed so far as sorted pieces, oldest first.

        They are joined by size, as files are: an operator may alternate between writing and
        reading many times in one batch without sorting everything again each time.
        """
        if self._pending:
            sizes = [file.batch.num_rows for file in self._settled]
            added = sum(rows.num_rows for rows in self._pending)
            start = merge_start(sizes, added, fanout=self._io.scratch_fanout)
            older = [file.batch for file in self._settled[start:]]
            oldest = self._is_new() and start == 0
            joined = self._combine([*older, *self._pending], oldest=oldest)
            self._settled[start:] = [OpenFile(joined)] if joined.num_rows else []
            self._pending = []
        return self._settled

    def _changes(self) -> pa.RecordBatch:
        """Return all that this batch has changed so far, in the order of a run."""
        settled = [file.batch for file in self._settled]
        return self._combine([*settled, *self._pending], oldest=self._is_new())

    def _is_new(self) -> bool:
        return not self._version.runs and not self._version.scratch

    @abstractmethod
    def _combine(self, parts: Sequence[pa.RecordBatch], *, oldest: bool) -> pa.RecordBatch:
        """Join parts (oldest first) into the rows of one run, sorted, without what is not needed.

        `oldest` says that nothing older exists, so that there is nothing to hide.
        """

    @abstractmethod
    def _still_needed(
        self, runs: tuple[RunRef, ...], scratch: tuple[ScratchRun, ...]
    ) -> tuple[tuple[RunRef, ...], tuple[ScratchRun, ...]]:
        """Leave out the files that hold nothing but expired rows, without reading them."""

    def _open_run(self, ref: RunRef) -> OpenFile:
        return self._io.open_run(self._version.name, ref, self.schema)

    def _open_scratch(self, run: ScratchRun) -> OpenFile:
        return self._io.open_scratch(self._version.name, run)

    # The end of a micro-batch.

    def finish_batch(self, epoch: int, batch: int) -> TableVersion:
        """Write the changes of this micro-batch as one scratch file; return the next version."""
        before = self._version.runs
        runs, scratch = self._still_needed(before, self._version.scratch)
        expired = tuple(run for run in before if run not in runs)
        replaced = (*self._version.replaced, *expired)
        self._version = replace(self._version, runs=runs, scratch=scratch, replaced=replaced)
        changes = self._changes()
        if changes.num_rows:
            sizes = [run.rows for run in scratch]
            start = merge_start(sizes, changes.num_rows, fanout=self._io.scratch_fanout)
            if start < len(scratch):
                parts = [self._open_scratch(run).batch for run in scratch[start:]]
                changes = self._combine([*parts, changes], oldest=not runs and start == 0)
            scratch = scratch[:start]
            if changes.num_rows:
                name = self._version.name
                written = self._io.write_scratch(name, changes, epoch=epoch, batch_number=batch)
                scratch = (*scratch, written)
        return self._finished(replace(self._version, scratch=scratch))

    # The end of an epoch.

    def finish_epoch(self, epoch: int) -> tuple[TableVersion, WriteStats]:
        """Make the changes of the epoch durable; return a version without scratch.

        Writes one object with only what changed. From time to time it also takes in the newest
        of the older runs, and writes more than one object only if these are large.
        """
        started = time.perf_counter()
        # Copies in the local cache, on which nothing depends: a run that several subtasks share,
        # after a change of the parallelism, stays for the others.
        for run in self._version.replaced:
            if not run.filters:
                self._io.cache.forget(run)
        before = self._version.runs
        runs, scratch = self._still_needed(self._version.runs, self._version.scratch)
        self._version = replace(self._version, runs=runs, scratch=scratch, replaced=())
        version, stats = self._durable(epoch, started)
        kept = {run.path for run in version.runs}
        replaced = tuple(run for run in before if run.path not in kept)
        return self._finished(replace(version, replaced=replaced)), stats

    def _durable(self, epoch: int, started: float) -> tuple[TableVersion, WriteStats]:
        """Write what the epoch has changed, and the older runs that are joined with it."""
        runs = self._version.runs
        changes = self._epoch_changes()
        stats = WriteStats(snapshot_ms=(time.perf_counter() - started) * 1000)
        rows = sum(part.batch.num_rows for part in changes)
        if rows == 0:
            return replace(self._version, scratch=()), stats
        groups = units(runs)
        sizes = [sum(live_rows(run) for run in group) for group in groups]
        start = merge_start(sizes, rows, fanout=self._io.fanout)
        # An epoch that is tried again under its number takes in what it wrote the first time,
        # so that newer runs always have the higher last epoch.
        while start > 0 and groups[start - 1][-1].last_epoch >= epoch:
            start -= 1
        kept = tuple(run for group in groups[:start] for run in group)
        joined = [run for group in groups[start:] for run in group]
        written, write_stats = self._write_runs(joined, changes, epoch=epoch, oldest=start == 0)
        version = replace(self._version, runs=(*kept, *written), scratch=())
        return version, stats + write_stats

    def _epoch_changes(self) -> list[Part]:
        """Return the changes since the last barrier, oldest first; joined, unless they are many."""
        parts = [Part(self._open_scratch(run).batch) for run in self._version.scratch]
        parts += [Part(file.batch) for file in self._batch_files()]
        if sum(part.batch.nbytes for part in parts) > self._io.run_bytes_max:
            return parts
        rows = self._combine([part.batch for part in parts], oldest=not self._version.runs)
        return [Part(rows)] if rows.num_rows else []

    def _write_runs(
        self, joined: Sequence[RunRef], changes: Sequence[Part], *, epoch: int, oldest: bool
    ) -> tuple[list[RunRef], WriteStats]:
        first_epoch = min((run.first_epoch for run in joined), default=epoch)
        started = time.perf_counter()
        stats = WriteStats(merged_rows=sum(live_rows(run) for run in joined))
        written = []
        for rows in self._slices([*self._run_parts(joined), *changes], oldest=oldest):
            ref, cost = self._io.write_run(
                self._version.name,
                rows,
                sorted_by=self.order,
                first_epoch=min(first_epoch, epoch),
                epoch=epoch,
            )
            written.append(ref)
            stats += cost
        elapsed_ms = (time.perf_counter() - started) * 1000
        return written, replace(stats, snapshot_ms=elapsed_ms - stats.upload_ms)

    def _run_parts(self, runs: Sequence[RunRef]) -> list[Part]:
        return [Part(self._open_run(run).batch, run.filters) for run in runs]

    def _slices(self, parts: Sequence[Part], *, oldest: bool) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows of all parts (oldest first), a bounded piece at a time.

        Each piece is a range of the sorted order, so that equal keys are always in one piece.
        """
        if not parts:
            return
        columns = [_column(part.batch, self.order) for part in parts]
        pieces = -(-sum(part.live_bytes() for part in parts) // self._io.run_bytes_max)
        for low, high in _cuts(columns, pieces):
            sliced = []
            for part, column in zip(parts, columns, strict=True):
                piece = _between(part.batch, column, low, high)
                sliced.append(select(piece, filter_mask(hashes(piece), part.filters)))
            yield from self._pieces(self._combine(sliced, oldest=oldest))

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what is written as one run each: nothing, or all of it."""
        if rows.num_rows:
            yield rows

    def _finished(self, version: TableVersion) -> TableVersion:
        self._settled, self._pending = [], []
        self._version = version
        return version


Column = np.ndarray[tuple[int], np.dtype[np.int32]] | np.ndarray[tuple[int], np.dtype[np.int64]]


def _column(batch: pa.RecordBatch, name: str) -> Column:
    values: Column = batch.column(name).to_numpy(zero_copy_only=True)
    return values


def _cuts(columns: Sequence[Column], pieces: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield the half-open ranges of the order column that make about equal pieces."""
    longest = max(columns, key=len)
    inner = sorted({int(longest[len(longest) * i // pieces]) for i in range(1, pieces)})
    edges: list[int | None] = [None, *inner, None]
    yield from pairwise(edges)


def _between(
    batch: pa.RecordBatch, column: Column, low: int | None, high: int | None
) -> pa.RecordBatch:
    first = 0 if low is None else int(np.searchsorted(column, low))
    last = len(column) if high is None else int(np.searchsorted(column, high))
    return batch.slice(first, last - first)


def joined_table(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the parts as one table, without copying them together."""
    return pa.Table.from_batches([part for part in parts if part.num_rows], schema=schema)
