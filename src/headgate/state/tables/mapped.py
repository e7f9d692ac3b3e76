"""Arrow files of this process, mapped into memory once and kept open.

Python workers are reused between micro-batches, so the cost of opening a file is paid once. Files
never change under one name, so an open mapping is never stale; a mapped file that was deleted
stays readable until it is released here.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FILES_MAX = 1024


@dataclass
class OpenFile:
    """The rows of one sorted file, and what this process has learnt about them."""

    batch: pa.RecordBatch
    # Which ranges of the hash occur at all; made by `search.py` when it pays.
    presence: npt.NDArray[np.bool_] | None = None
    # The rows that have a time, in the order of their times; likewise.
    by_time: npt.NDArray[np.int32] | None = None


_lock = threading.Lock()
_open: OrderedDict[str, tuple[str, OpenFile]] = OrderedDict()


def open_mapped(path: str, owner: str) -> OpenFile:
    """Return the single record batch of an Arrow IPC file without reading its rows.

    Raises `FileNotFoundError`, or `pa.ArrowInvalid` where the file is not complete.
    """
    with _lock:
        known = _open.get(path)
        if known is not None:
            _open.move_to_end(path)
            return known[1]
    opened = OpenFile(_map(path))
    with _lock:
        _open[path] = (owner, opened)
        while len(_open) > FILES_MAX:
            _open.popitem(last=False)
    return opened


def is_mapped(path: str) -> bool:
    with _lock:
        return path in _open


def retain(owner: str, paths: Collection[str]) -> None:
    """Release what this owner no longer uses, so that the disk space of deleted files is freed."""
    with _lock:
        gone = [path for path, (by, _) in _open.items() if by == owner and path not in paths]
        for path in gone:
            del _open[path]


def release_all() -> None:
    with _lock:
        _open.clear()


def _map(path: str) -> pa.RecordBatch:
    with pa.memory_map(path, "r") as source:
        reader = pa.ipc.open_file(source)
        if reader.num_record_batches != 1:
            raise pa.ArrowInvalid(f"{path} has {reader.num_record_batches} record batches, not one")
        return reader.get_batch(0)


def write_arrow(path: str, batch: pa.RecordBatch) -> int:
    """Write one record batch as an uncompressed Arrow IPC file; return its size."""
    with (
        pa.OSFile(path, "wb") as sink,
        pa.ipc.new_file(sink, batch.schema) as writer,
    ):
        writer.write_batch(batch)
    return os.path.getsize(path)
