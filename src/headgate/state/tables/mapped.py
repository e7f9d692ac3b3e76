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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

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


def open_mapped(path: str, owner: str, read: Callable[[str], pa.Buffer]) -> OpenFile:
    """Return the single record batch of an Arrow IPC file, opened once per process.

    `read` maps the file at its first use. Raises what it raises, or `pa.ArrowInvalid` if the file
    is not complete.
    """
    with _lock:
        known = _open.get(path)
        if known is not None:
            _open.move_to_end(path)
            return known[1]
    opened = OpenFile(_single_batch(path, read(path)))
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


def map_checked(path: str, *, verify: bool) -> pa.Buffer:
    """Map a file of `write_checked` and return the Arrow file in it: see `checked_rows`."""
    with pa.memory_map(path, "r") as source:
        return checked_rows(source.read_buffer(), verify=verify)


def checked_rows(data: pa.Buffer, *, verify: bool) -> pa.Buffer:
    """Return the Arrow file in front of its checksum.

    With `verify` it is read once and compared with what was written: other content is
    `pa.ArrowInvalid`.
    """
    size = data.size - _TRAILER.size
    if size < 0:
        raise pa.ArrowInvalid("the file is not complete")
    rows = data.slice(0, size)
    magic, written = _TRAILER.unpack(data.slice(size).to_pybytes())
    if magic != _MAGIC or (verify and zlib.crc32(rows) != written):
        raise pa.ArrowInvalid("the file is not what was written")
    return rows


def _single_batch(path: str, source: pa.Buffer) -> pa.RecordBatch:
    reader = pa.ipc.open_file(source)
    if reader.num_record_batches != 1:
        raise pa.ArrowInvalid(f"{path} has {reader.num_record_batches} record batches, not one")
    return reader.get_batch(0)


def write_arrow(path: str, batches: Sequence[pa.RecordBatch]) -> int:
    """Write record batches as an uncompressed Arrow IPC file; return its size."""
    with pa.OSFile(path, "wb") as sink:
        _write(sink, batches)
    return os.path.getsize(path)


def _write(sink: pa.NativeFile, batches: Sequence[pa.RecordBatch]) -> None:
    with pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_checked(path: str, batch: pa.RecordBatch) -> int:
    """As `write_arrow`, with a checksum behind it, for files that outlive their writer."""
    size = write_arrow(path, [batch])
    with pa.memory_map(path, "r") as source:
        checksum = zlib.crc32(source.read_buffer(size))
    with open(path, "ab") as file:
        file.write(_TRAILER.pack(_MAGIC, checksum))
    return size + _TRAILER.size


def checked_bytes(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return what `write_checked` would write."""
    sink = pa.BufferOutputStream()
    _write(sink, batches)
    sink.flush()
    written = sink.getvalue()
    return b"".join((written, _TRAILER.pack(_MAGIC, zlib.crc32(written))))
