"""Reads the lines of byte ranges as Arrow text, in tasks. No row is touched in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.model import model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK_BYTES = 4 << 20


@model
class LineRange:
    """The bytes [start, end) of a file; both lie at the start of a line, or at the file's end."""

    path: str
    start: int
    end: int


# Returns the bytes of a range, piece by piece, each at most BLOCK_BYTES long.
ReadPieces = Callable[[LineRange], Iterator[bytes]]


def read_line_ranges(
    spark: SparkSession, parts: list[list[LineRange]], read_pieces: ReadPieces
) -> DataFrame:
    """Return the lines as a column `value`, one partition per part, in the order given.

    A line that is not UTF-8 is null. The line ends (`\\n` or `\\r\\n`) are left out.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                for line_range in parts[part]:
                    for text in lines_of(read_pieces(line_range)):
                        yield pa.RecordBatch.from_arrays([text], ["value"])

    count = len(parts)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(read, "value string")


def lines_of(pieces: Iterator[bytes]) -> Iterator[pa.Array]:
    """Cut pieces of one range into lines. The last line may lack its newline."""
    rest = b""
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            rest += piece
            continue
        yield split_lines(rest + piece[:cut])
        rest = piece[cut:]
    if rest:
        yield split_lines(rest)


def split_lines(block: bytes) -> pa.Array:
    """Return the lines of a block as text, null where they are not UTF-8."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")).astype(np.int32) + 1
    if len(ends) == 0 or ends[-1] != len(block):
        ends = np.append(ends, np.int32(len(block)))
    offsets = np.concatenate([np.zeros(1, np.int32), ends]).astype(np.int32)
    raw = pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    )
    try:
        text = raw.cast(pa.string())
    except pa.ArrowInvalid:
        # Only a block that holds such a line pays for looking at each of them.
        text = pa.array([_utf8_or_none(line) for line in raw.to_pylist()], pa.string())
    return pc.ascii_rtrim(text, characters="\r\n")


def _utf8_or_none(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
