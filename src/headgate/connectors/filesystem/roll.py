"""Files under construction in a task's memory: one per folder, rolled by size, then staged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.connectors.base import StageWriter
from headgate.connectors.formats.encode import TextEncoder
from headgate.core.checkpoint import StagedFile
from headgate.core.model import JsonValue


class GrowingFile(Protocol):
    """A file that is not finished."""

    rows: int

    def write(self, rows: pa.RecordBatch) -> None: ...

    def size(self) -> int:
        """Return its bytes so far; rows that wait to be compressed may be missing."""

    def finish(self) -> pa.Buffer: ...


class ParquetFile:
    """Rows are gathered into row groups."""

    def __init__(self, compression: str, row_group_bytes: int) -> None:
        self.rows = 0
        self._compression = "none" if compression == "uncompressed" else compression
        self._row_group_bytes = row_group_bytes
        self._output = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._row_group_bytes:
            self._flush()

    def size(self) -> int:
        return int(self._output.tell())

    def finish(self) -> pa.Buffer:
        self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._output.getvalue()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._output, table.schema, compression=self._compression
            )
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._waiting_bytes = [], 0


class TextFile:
    """Lines, after the header that the format wants."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.rows = 0
        self._encoder = encoder
        self._pieces: list[pa.Buffer | bytes] = []
        self._size = 0

    def write(self, rows: pa.RecordBatch) -> None:
        if not self._pieces:
            self._pieces.append(self._encoder.header(rows.schema.names))
        lines = self._encoder.lines(rows)
        self.rows += rows.num_rows
        self._pieces += lines
        self._size += sum(piece.size for piece in lines)

    def size(self) -> int:
        return self._size

    def finish(self) -> pa.Buffer:
        return pa.py_buffer(b"".join(self._pieces))


class FileRoller:
    """Sends rows to the file of their folder and stages the files that are full."""

    def __init__(
        self,
        new_file: Callable[[], GrowingFile],
        writer: StageWriter,
        *,
        file_bytes: int,
        suffix: str,
        extra: dict[str, JsonValue],
    ) -> None:
        self._new_file = new_file
        self._writer = writer
        self._file_bytes = file_bytes
        self._suffix = suffix
        self._extra = extra
        self._open: dict[str, GrowingFile] = {}
        self._staged: list[StagedFile] = []

    def write(self, folder: str, rows: pa.RecordBatch) -> None:
        if rows.num_rows == 0:
            return
        file = self._open.setdefault(folder, self._new_file())
        file.write(rows)
        if file.size() >= self._file_bytes:
            self._stage(folder, self._open.pop(folder))

    def close(self) -> list[StagedFile]:
        """Stage what is open, in order of appearance, and return everything staged."""
        for folder, file in self._open.items():
            self._stage(folder, file)
        self._open = {}
        return self._staged

    def _stage(self, folder: str, file: GrowingFile) -> None:
        extra = {**self._extra, "folder": folder}
        self._staged.append(self._writer.write(self._suffix, file.finish(), file.rows, extra))
