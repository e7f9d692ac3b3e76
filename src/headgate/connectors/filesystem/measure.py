"""How many rows a file holds: exact for Parquet, from its footer, else guessed from its bytes."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.connectors.target import FileInfo, Folder
from headgate.core.errors import BadDataError

_SAMPLE_BYTES = 65_536
_FOOTERS_MAX = 100_000


class FileMeasure:
    """Remembers what it has measured: a backlog is cut again and again from one listing."""

    def __init__(self, folder: Folder, format_name: str) -> None:
        self._folder = folder
        self._parquet = format_name == "parquet"
        self._footers: dict[str, tuple[int, bool]] = {}
        self._line_bytes: float | None = None

    def rows(self, file: FileInfo) -> int:
        if self._parquet:
            return self._footer(file)[0]
        if self._line_bytes is None:
            sample = self._folder.read(file.path, 0, min(file.bytes, _SAMPLE_BYTES))
            self._line_bytes = len(sample) / max(1, sample.count(b"\n"))
        return max(1, round(file.bytes / self._line_bytes))

    def is_foreign(self, file: FileInfo) -> bool:
        """Whether Spark's own reader would refuse the file."""
        return self._parquet and self._footer(file)[1]

    def _footer(self, file: FileInfo) -> tuple[int, bool]:
        found = self._footers.get(file.path)
        if found is None:
            found = self._read_footer(file)
            if len(self._footers) >= _FOOTERS_MAX:
                self._footers.clear()
            self._footers[file.path] = found
        return found

    def _read_footer(self, file: FileInfo) -> tuple[int, bool]:
        try:
            metadata = pq.read_metadata(_Tail(self._folder, file))
        except (pa.ArrowInvalid, OSError) as error:
            raise BadDataError(
                f"'{file.path}' is no complete Parquet file: {error}. Write files under a name "
                "that starts with '.' or '_' and rename them when they are complete; leave this "
                "one out with source.regex_pattern, or remove it."
            ) from error
        schema = metadata.schema.to_arrow_schema()
        return metadata.num_rows, any(_has_nanoseconds(field.type) for field in schema)


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_nanoseconds(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


class _Tail(io.RawIOBase):
    """A file of which only what is asked for is fetched: a footer is a small part of it."""

    def __init__(self, folder: Folder, file: FileInfo) -> None:
        self._folder = folder
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._file.bytes if size < 0 else min(self._file.bytes, self._position + size)
        if end <= self._position:
            return b""
        data = self._folder.read(self._file.path, self._position, end)
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
