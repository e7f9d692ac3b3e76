"""Arrow files of this process, mapped into memory once and kept open.

Python workers are reused between micro-batches, so the cost of opening a file is paid once. Files
never change under one name, so an open mapping is never stale; a mapped file that was deleted
stays readable until it is released here.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FILES_MAX = 1024
# Behind the rows of a checked file: what it is, and the CRC-32 of all before.
_TRAILER = struct.Struct("<4sI")
_MAGIC = b"HGC1"


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

    Raises `FileNotFoundError`, or `pa.ArrowInvalid` if the file is not complete.
    """
    return _opened(path, owner, lambda: _map(path))


def open_checked(path: str, owner: str, *, verify: bool) -> OpenFile:
    """As `open_mapped`, for a file of `write_checked`.

    With `verify`, its rows are read once and compared with what was written: a file of another
    content is `pa.ArrowInvalid`.
    """
    return _opened(path, owner, lambda: _map_checked(path, verify=verify))


def _opened(path: str, owner: str, read: Callable[[], pa.RecordBatch]) -> OpenFile:
    with _lock:
        known = _open.get(path)
        if known is not None:
            _open.move_to_end(path)
            return known[1]
    opened = OpenFile(read())
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
        return _single_batch(path, source)


def _map_checked(path: str, *, verify: bool) -> pa.RecordBatch:
    with pa.memory_map(path, "r") as source:
        size = source.size() - _TRAILER.size
        if size < 0:
            raise pa.ArrowInvalid(f"{path} is not complete")
        rows = source.read_buffer(size)
        magic, written = _TRAILER.unpack(source.read(_TRAILER.size))
        if magic != _MAGIC or (verify and zlib.crc32(rows) != written):
            raise pa.ArrowInvalid(f"{path} is not what was written")
        return _single_batch(path, rows)


def _single_batch(path: str, source: Any) -> pa.RecordBatch:
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


def write_checked(path: str, batch: pa.RecordBatch) -> int:
    """As `write_arrow`, with a checksum behind it, for files that outlive their writer."""
    size = write_arrow(path, batch)
    with pa.memory_map(path, "r") as source:
        checksum = zlib.crc32(source.read_buffer(size))
    with open(path, "ab") as file:
        file.write(_TRAILER.pack(_MAGIC, checksum))
    return size + _TRAILER.size
