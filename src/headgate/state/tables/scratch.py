"""Where the files of an epoch wait for its barrier: changed rows of tables, buffers of sinks.

They belong to one generation and are worth nothing without it. On one machine, and on a file
system that all hosts share, they are files in a folder, mapped where they lie. Hosts that share
nothing keep them in the state store, below the generation, each with a copy on the disk of the
executor that wrote it: who keeps a subtask reads its own disk, who takes one over fetches, and who
dies takes nothing along.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headgate.core.errors import ObjectNotFound, StorageError
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.tables import mapped
from headgate.state.tables.cache import remove_copy


class Scratch(Protocol):
    """Arrow IPC files under names that nobody else uses."""

    def write(self, name: str, batches: Sequence[pa.RecordBatch]) -> tuple[str, int]:
        """Write a file that whoever runs the next micro-batch can read; return path and size."""

    def map(self, path: str) -> pa.Buffer:
        """Return the bytes of a file. Raises `StorageError` (`scratch_lost`) if it is gone."""

    def keep_only(self, folder: str, paths: Collection[str]) -> None:
        """Nothing else in this folder is needed here any more: remove local copies of it."""


@dataclass(frozen=True)
class FolderScratch:
    """Files in a folder that every executor sees. Their paths are absolute."""

    folder: str

    def write(self, name: str, batches: Sequence[pa.RecordBatch]) -> tuple[str, int]:
        path = os.path.join(os.path.abspath(self.folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path, mapped.write_arrow(path, batches)

    def map(self, path: str) -> pa.Buffer:
        try:
            with pa.memory_map(path, "r") as source:
                return source.read_buffer()
        except FileNotFoundError as error:
            raise scratch_lost(
                path, "every executor must see its folder: is it on one host only?"
            ) from error

    def keep_only(self, folder: str, paths: Collection[str]) -> None:
        """These are no copies: the driver removes them when no micro-batch can read them."""


@dataclass(frozen=True)
class StoreScratch:
    """Objects below the generation in the job's folder, with copies on the local disk.

    Nothing depends on a copy: one that is missing or damaged is fetched again, and a disk that is
    full costs time only.
    """

    store: ObjectStore
    generation: int
    copies: str
    # Whether a copy is checked before its first use in a process; what is fetched always is.
    verify: bool

    def write(self, name: str, batches: Sequence[pa.RecordBatch]) -> tuple[str, int]:
        data = mapped.checked_bytes(batches)
        path = layout.scratch(self.generation, name)
        # First the object: a report names only what every other executor can read.
        self.store.put(path, data)
        self._keep(path, data)
        return path, len(data)

    def map(self, path: str) -> pa.Buffer:
        with contextlib.suppress(OSError, pa.ArrowInvalid):
            return mapped.map_checked(self._copy(path), verify=self.verify)
        try:
            data = self.store.get(path)
        except ObjectNotFound as error:
            raise scratch_lost(path, "it was removed from the state store") from error
        try:
            rows = mapped.checked_rows(pa.py_buffer(data), verify=True)
        except pa.ArrowInvalid as error:
            raise scratch_lost(path, "it is not what was written") from error
        self._keep(path, data)
        return rows

    def keep_only(self, folder: str, paths: Collection[str]) -> None:
        kept = {os.path.basename(path) for path in paths}
        local = self._copy(layout.scratch(self.generation, folder))
        with contextlib.suppress(OSError), os.scandir(local) as found:
            for entry in found:
                if entry.name not in kept:
                    remove_copy(entry.path)

    def _copy(self, path: str) -> str:
        return os.path.join(self.copies, path)

    def _keep(self, path: str, data: bytes) -> None:
        copy = self._copy(path)
        temporary = f"{copy}.{uuid.uuid4().hex}.tmp"
        try:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, copy)
        except OSError:
            # Best effort: the object is there.
            remove_copy(temporary)


def scratch_lost(path: str, why: str) -> StorageError:
    return StorageError(
        f"scratch file {path} is gone or damaged: {why}; the job continues from its last "
        "checkpoint",
        code="scratch_lost",
    )


def file_name(
    operator: str, table: str, subtask: int, *, epoch: int, batch: int, attempt: str
) -> str:
    """Name a new file; `attempt` must differ between any two tries at the same work."""
    return f"{folder_name(operator, table, subtask)}/{epoch:07}-{batch:07}-{attempt}.arrow"


def folder_name(operator: str, table: str, subtask: int) -> str:
    return f"{operator}/{table}/{subtask:03}"
