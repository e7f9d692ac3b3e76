"""What a file holds: for Parquet as its footer says, else guessed from its bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.core.errors import BadDataError
from headgate.core.ports import ObjectInfo
from headgate.storage.folder import Folder

_SAMPLE_BYTES = 65_536
_FOOTERS_MAX = 100_000


@dataclass(frozen=True)
class Footer:
    """What the footer of a Parquet file says."""

    rows: int
    # Whether Spark's own reader would refuse the file.
    foreign: bool
    # The greatest value (microseconds) of every column of times whose values are all accounted
    # for; None if it has none.
    latest_us: dict[str, int | None]


class FileMeasure:
    """Remembers what it has measured: a backlog is cut again and again from one listing."""

    def __init__(self, folder: Folder, format_name: str) -> None:
        self._folder = folder
        self._parquet = format_name == "parquet"
        self._footers: dict[str, Footer] = {}
        self._line_bytes: float | None = None

    def rows(self, file: ObjectInfo) -> int:
        if self._parquet:
            return self.footer(file.path, file.bytes).rows
        if self._line_bytes is None:
            sample = self._folder.read(file.path, 0, min(file.bytes, _SAMPLE_BYTES))
            self._line_bytes = len(sample) / max(1, sample.count(b"\n"))
        return max(1, round(file.bytes / self._line_bytes))

    def is_foreign(self, file: ObjectInfo) -> bool:
        """Whether Spark's own reader would refuse the file."""
        return self._parquet and self.footer(file.path, file.bytes).foreign

    def footer(self, path: str, size: int) -> Footer:
        """Return what the footer of a Parquet file of `size` bytes says."""
        found = self._footers.get(path)
        if found is None:
            found = self._read_footer(path, size)
            if len(self._footers) >= _FOOTERS_MAX:
                self._footers.clear()
            self._footers[path] = found
        return found

    def _read_footer(self, path: str, size: int) -> Footer:
        try:
            metadata = pq.read_metadata(_Tail(self._folder, path, size))
        except (pa.ArrowInvalid, OSError) as error:
            raise BadDataError(
                f"'{path}' is no complete Parquet file: {error}. Write files under a name "
                "that starts with '.' or '_' and rename them when they are complete; leave this "
                "one out with source.regex_pattern, or remove it."
            ) from error
        schema = metadata.schema.to_arrow_schema()
        foreign = any(_has_nanoseconds(field.type) for field in schema)
        return Footer(metadata.num_rows, foreign, _latest_times(metadata))


def _latest_times(metadata: pq.FileMetaData) -> dict[str, int | None]:
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    found = {}
    for position, name in enumerate(names):
        chunks = [group.column(position) for group in groups]
        if all(_says_times(chunk) for chunk in chunks):
            greatest = [c.statistics.max for c in chunks if c.num_values]
            times = [_microseconds(time) for time in greatest if time is not None]
            found[name] = max(times, default=None)
    return found


def _says_times(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a chunk's statistics give its greatest time, or say that it has no value."""
    if chunk.num_values == 0:
        return True
    statistics = chunk.statistics
    if statistics is None or statistics.logical_type.type != "TIMESTAMP":
        return False
    return bool(statistics.has_min_max or statistics.null_count == chunk.num_values)


def _microseconds(time: datetime) -> int:
    # A time without a zone is in UTC.
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_nanoseconds(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


class _Tail(io.RawIOBase):
    """A file of which only what is asked for is fetched: a footer is a small part of it."""

    def __init__(self, folder: Folder, path: str, size: int) -> None:
        self._folder = folder
        self._path = path
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        if end <= self._position:
            return b""
        data = self._folder.read(self._path, self._position, end)
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
