"""Runs as Arrow files on the local disk, so that each is fetched and decoded once per host.

The cache is keyed by checksum and file name, and neither a run nor a cached file ever changes, so
it can never be stale. Several processes may fill it at once: each writes a file of its own and
renames it into place, and the last one wins with equal content. Nothing depends on it: a file that
is missing or damaged is filled again, and a disk that is full costs time, not a checkpoint.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from dataclasses import dataclass

import pyarrow as pa

from headgate.core.checkpoint import RunRef
from headgate.state.tables import mapped
from headgate.state.tables.mapped import OpenFile

TEMPORARY_SECONDS_MAX = 3600

_log = logging.getLogger(__name__)
# Folders that could not be written to, so that the log says it once and not with every run.
_failed: set[str] = set()


@dataclass(frozen=True)
class RunCache:
    """One folder of cached runs; may be shared by all jobs and processes of a host."""

    folder: str
    bytes_max: int
    # Whether a file is checked before its first use in a process.
    verify: bool

    def path(self, ref: RunRef) -> str:
        digest = ref.checksum.removeprefix("sha256:")[:32]
        name = os.path.basename(ref.path).removesuffix(".parquet")
        return os.path.join(self.folder, f"{digest}-{name}.arrow")

    def open(self, ref: RunRef, owner: str) -> OpenFile | None:
        """Return the rows of a run; None if they are not there, or not as they were written."""
        path = self.path(ref)
        try:
            if not mapped.is_mapped(path):
                os.utime(path)  # least recently used goes first
            return mapped.open_mapped(
                path, owner, lambda path: mapped.map_checked(path, verify=self.verify)
            )
        except (OSError, pa.ArrowInvalid):
            return None

    def fill(self, ref: RunRef, batch: pa.RecordBatch) -> None:
        """Keep a run, if there is room for it."""
        path = self.path(ref)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            os.makedirs(self.folder, exist_ok=True)
            size = mapped.write_checked(temporary, batch)
            os.replace(temporary, path)
            evict(self.folder, bytes_max=max(self.bytes_max, size), keep=path)
        except OSError as error:
            # Best effort: the run is durable already, or comes from where it is.
            if self.folder not in _failed:
                _failed.add(self.folder)
                _log.warning("runs cannot be cached in %s, so they are read again: %s", path, error)
            remove_copy(temporary)

    def forget(self, ref: RunRef) -> None:
        """Remove a run that no newer version of its table has.

        Without this every run would stay until the cache is full, and making room for the next
        would mean to look through all of them.
        """
        remove_copy(self.path(ref))


def remove_copy(path: str) -> None:
    """Remove a copy on the local disk, if that can be done; nothing depends on it."""
    try:
        os.unlink(path)
    except OSError:
        # It is not there, or the disk refuses this as well; `evict` takes it later.
        return


def evict(folder: str, *, bytes_max: int, keep: str) -> None:
    """Delete the least recently used files of the cache until it fits.

    A file that another process is writing stays, unless it is so old that its writer is dead.
    """
    entries = []
    dead_ns = time.time_ns() - TEMPORARY_SECONDS_MAX * 10**9
    with os.scandir(folder) as found:
        for entry in found:
            try:
                stat = entry.stat()
            except FileNotFoundError:  # another process evicts too
                continue
            if entry.name.endswith(".tmp") and stat.st_mtime_ns > dead_ns:
                continue
            entries.append((stat.st_mtime_ns, entry.path, stat.st_size))
    excess = sum(size for _, _, size in entries) - bytes_max
    for _, path, size in sorted(entries):
        if excess <= 0:
            return
        if path == keep:
            continue
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        excess -= size
