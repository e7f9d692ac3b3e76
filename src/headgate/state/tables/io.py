"""Everything a table needs from outside: where files are read from and written to.

A Parquet run is read once per host: the first touch puts it into the local cache (`cache.py`) as
an Arrow file, which is then mapped.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.core.checkpoint import RunRef
from headgate.core.errors import CheckpointInvalid, ObjectNotFound
from headgate.core.ids import Epoch
from headgate.core.model import model
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.tables import mapped
from headgate.state.tables.cache import RunCache
from headgate.state.tables.mapped import OpenFile
from headgate.state.tables.rows import hash_range, time_range
from headgate.state.tables.scratch import (
    FolderScratch,
    Scratch,
    StoreScratch,
    file_name,
    folder_name,
    scratch_lost,
)
from headgate.state.tables.version import ScratchRun, TableVersion

MIB = 1 << 20


@model
class WriteStats:
    """What one barrier cost one table."""

    objects: int = 0
    bytes: int = 0
    snapshot_ms: float = 0.0
    upload_ms: float = 0.0
    # Of the rows written, how many came from older durable runs: the cost of merging.
    merged_rows: int = 0
    rows: int = 0

    def __add__(self, other: WriteStats) -> WriteStats:
        return WriteStats(
            objects=self.objects + other.objects,
            bytes=self.bytes + other.bytes,
            snapshot_ms=self.snapshot_ms + other.snapshot_ms,
            upload_ms=self.upload_ms + other.upload_ms,
            merged_rows=self.merged_rows + other.merged_rows,
            rows=self.rows + other.rows,
        )


@dataclass(kw_only=True)
class TableIo:
    """The outside of the tables of one subtask in one task attempt. Picklable if `store` is."""

    # The store of the job (paths relative to the job's folder), or how to open it.
    store: ObjectStore | Callable[[], ObjectStore]
    # The folder of the changes between barriers: see `scratch_in_store`.
    scratch_dir: str
    # Local to the host; may be shared by all jobs and processes on it, may vanish at any time.
    cache_dir: str
    cache_bytes_max: int = 8 << 30
    verify_checksums: bool = False
    # Whether `scratch_dir` has copies on this host of what is in the state store. Otherwise it is
    # all there is: on storage that every executor reaches, for as long as the generation lives.
    scratch_in_store: bool = False
    generation: int
    operator: str
    subtask: int
    # Names of files end with it. Must differ between any two attempts at the same work.
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    # A larger run is written as several, cut by hash: bounds the memory of merging and loading.
    run_bytes_max: int = 128 * MIB
    # Runs of about one size that a table has before they are joined: more of them make writing
    # cheaper, fewer make searching cheaper.
    fanout: int = 8
    scratch_fanout: int = 4
    _opened: ObjectStore | None = field(default=None, repr=False)
    _written: int = field(default=0, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def objects(self) -> ObjectStore:
        if self._opened is None:
            self._opened = self.store() if callable(self.store) else self.store
        return self._opened

    @property
    def cache(self) -> RunCache:
        return RunCache(self.cache_dir, self.cache_bytes_max, self.verify_checksums)

    @property
    def scratch(self) -> Scratch:
        if not self.scratch_in_store:
            return FolderScratch(self.scratch_dir)
        return StoreScratch(
            self.objects, self.generation, self.scratch_dir, verify=self.verify_checksums
        )

    def run_path(self, table: str, epoch: int) -> str:
        """Name a new run, relative to the job's folder; no two calls give the same name."""
        return layout.run(
            self.generation, self.operator, table, epoch, self.subtask, self._unique()
        )

    def owner(self, table: str) -> str:
        return f"{self.scratch_dir}|{self.operator}|{self.subtask}|{table}"

    def release_others(self, version: TableVersion) -> None:
        """Close the mapped files of this table that the version no longer names."""
        scratch = {run.path for run in version.scratch}
        mapped.retain(
            self.owner(version.name), scratch | {self.cache.path(run) for run in version.runs}
        )
        folder = folder_name(self.operator, version.name, self.subtask)
        self.scratch.keep_only(folder, scratch)

    def close_all(self, table: str) -> None:
        """Close every mapped file of a table: its runs were only to be fetched."""
        mapped.retain(self.owner(table), ())

    # Scratch: this epoch's changes between barriers.

    def write_scratch(
        self, table: str, batch: pa.RecordBatch, *, epoch: int, batch_number: int
    ) -> ScratchRun:
        name = file_name(
            self.operator,
            table,
            self.subtask,
            epoch=epoch,
            batch=batch_number,
            attempt=self._unique(),
        )
        path, size = self.scratch.write(name, [batch])
        low_hash, high_hash = hash_range(batch)
        low_time, high_time = time_range(batch)
        return ScratchRun(
            path=path,
            bytes=size,
            rows=batch.num_rows,
            min_hash=low_hash,
            max_hash=high_hash,
            min_time=low_time,
            max_time=high_time,
            epoch=Epoch(epoch),
            batch=batch_number,
        )

    def open_scratch(self, table: str, run: ScratchRun) -> OpenFile:
        try:
            return mapped.open_mapped(run.path, self.owner(table), self.scratch.map)
        except pa.ArrowInvalid as error:
            raise scratch_lost(run.path, str(error)) from error

    # Durable runs.

    def write_run(
        self, table: str, batch: pa.RecordBatch, *, sorted_by: str, first_epoch: int, epoch: int
    ) -> tuple[RunRef, WriteStats]:
        """Make one run durable and put it into the local cache."""
        started = time.perf_counter()
        data = encode_parquet(batch, sorted_by=sorted_by)
        low_hash, high_hash = hash_range(batch)
        low_time, high_time = time_range(batch)
        ref = RunRef(
            path=self.run_path(table, epoch),
            bytes=len(data),
            checksum="sha256:" + hashlib.sha256(data).hexdigest(),
            rows=batch.num_rows,
            min_hash=low_hash,
            max_hash=high_hash,
            min_time=low_time,
            max_time=high_time,
            first_epoch=Epoch(first_epoch),
            last_epoch=Epoch(epoch),
        )
        encoded = time.perf_counter()
        self.objects.put(ref.path, data.to_pybytes())
        uploaded = time.perf_counter()
        self.cache.fill(ref, batch)
        cached = time.perf_counter()
        return ref, WriteStats(
            objects=1,
            bytes=len(data),
            snapshot_ms=(encoded - started + cached - uploaded) * 1000,
            upload_ms=(uploaded - encoded) * 1000,
            rows=batch.num_rows,
        )

    def open_run(self, table: str, ref: RunRef, schema: pa.Schema) -> OpenFile:
        """Return all rows of a run, filters not applied; from the cache if it is there."""
        owner = self.owner(table)
        cached = self.cache.open(ref, owner)
        if cached is not None:
            return cached
        batch = self._load(ref, schema)
        self.cache.fill(ref, batch)
        # It may not be there: the disk is full, or another process has just made room for its own.
        return self.cache.open(ref, owner) or OpenFile(batch)

    def _load(self, ref: RunRef, schema: pa.Schema) -> pa.RecordBatch:
        try:
            data = self.objects.get(ref.path)
        except ObjectNotFound as error:
            raise CheckpointInvalid(
                f"run {ref.path} does not exist; use an older checkpoint", code="missing"
            ) from error
        if len(data) != ref.bytes:
            raise CheckpointInvalid(
                f"run {ref.path} has {len(data)} bytes, its checkpoint says {ref.bytes}; "
                "use an older checkpoint",
                code="truncated" if len(data) < ref.bytes else "corrupt",
            )
        if self.verify_checksums:
            found = "sha256:" + hashlib.sha256(data).hexdigest()
            if found != ref.checksum:
                raise CheckpointInvalid(
                    f"run {ref.path} has checksum {found}, its checkpoint says {ref.checksum}; "
                    "use an older checkpoint",
                    code="corrupt",
                )
        return decode_parquet(data, ref, schema)

    def _unique(self) -> str:
        self._written += 1
        return self.attempt if self._written == 1 else f"{self.attempt}-{self._written}"


def encode_parquet(batch: pa.RecordBatch, *, sorted_by: str) -> pa.Buffer:
    """Return the rows as a Parquet file of one row group, which any Parquet reader opens.

    Dictionaries are left out: most values of a state occur once, and looking for repetitions
    costs more than it saves. Sorted integers are stored as their differences.
    """
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches([batch])
    pq.write_table(
        table,
        sink,
        row_group_size=max(1, batch.num_rows),
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding={sorted_by: "DELTA_BINARY_PACKED"},
    )
    return sink.getvalue()


def decode_parquet(data: bytes, ref: RunRef, schema: pa.Schema) -> pa.RecordBatch:
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise CheckpointInvalid(
            f"run {ref.path} is not a readable Parquet file; use an older checkpoint: {error}",
            code="corrupt",
        ) from error
    if table.num_rows != ref.rows or not table.schema.equals(schema):
        raise CheckpointInvalid(
            f"run {ref.path} has {table.num_rows} rows of {table.schema}, not the {ref.rows} rows "
            f"of {schema} that its checkpoint and its operator expect",
            code="inconsistent",
        )
    batches = table.combine_chunks().to_batches()
    if len(batches) != 1:
        raise CheckpointInvalid(f"run {ref.path} is empty or too large", code="inconsistent")
    return batches[0]
