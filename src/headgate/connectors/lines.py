"""Lines of files by byte ranges: cut on the driver, read as Arrow text in tasks.

No line is touched in Python, unless it is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.errors import UserError
from headgate.core.model import model
from headgate.storage.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK_BYTES = 4 << 20
_PROBE_BYTES = 65_536
_NEWLINE = ord("\n")
# Stands for a line that is no text. It is no record of any format.
PLACE_COLUMN = "_place"
NOT_UTF8 = "\ufffd this line is not UTF-8"


@model
class LineRange:
    """The bytes [start, end) of a file; both lie at the start of a line, or at the file's end."""

    path: str
    start: int
    end: int
    # The first line is a header.
    skip_line: bool = False


def scan_lines(folder: Folder, path: str, start: int, size: int, rows_max: int) -> tuple[int, int]:
    """Return (rows, end) of at most `rows_max` whole lines from `start`.

    Counting newlines is much cheaper than parsing what stands between them, and exact. The last
    line of the file may lack its newline.
    """
    rows, position, last = 0, start, b"\n"
    while position < size and rows < rows_max:
        block = folder.read(path, position, min(size, position + BLOCK_BYTES))
        if not block:
            break
        found = block.count(b"\n")
        if rows + found >= rows_max:
            newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
            return rows_max, position + int(newlines[rows_max - rows - 1]) + 1
        rows, position, last = rows + found, position + len(block), block[-1:]
    return (rows if last == b"\n" else rows + 1), position


def line_start(folder: Folder, path: str, position: int, limit: int) -> int:
    """Return the first start of a line at or after `position` > 0, or `limit`."""
    at = position - 1
    while at < limit:
        block = folder.read(path, at, min(limit, at + _PROBE_BYTES))
        if not block:
            break
        cut = block.find(b"\n")
        if cut >= 0:
            return at + cut + 1
        at += len(block)
    return limit


def split_ranges(folder: Folder, ranges: Sequence[LineRange], parts: int) -> list[list[LineRange]]:
    """Share ranges out among `parts` of about equal bytes, at line starts, keeping the order."""
    total = sum(r.end - r.start for r in ranges)
    shares: list[list[LineRange]] = [[]]
    taken = 0
    for whole in ranges:
        start = whole.start
        while start < whole.end:
            # What the parts up to this one should hold together.
            wanted = total * len(shares) // parts
            room = wanted - taken
            if len(shares) < parts and room <= 0:
                shares.append([])
                continue
            end = whole.end
            if len(shares) < parts and start + room < whole.end:
                end = line_start(folder, whole.path, start + room, whole.end)
            skip = whole.skip_line and start == whole.start
            shares[-1].append(LineRange(path=whole.path, start=start, end=end, skip_line=skip))
            taken += end - start
            start = end
    return shares


# Looks at the header of a file (its path, the line), and raises if the rows cannot be read so.
HeaderCheck = Callable[[str, str], None]


def read_line_ranges(
    spark: SparkSession,
    folder: Folder,
    parts: list[list[LineRange]],
    check_header: HeaderCheck | None = None,
    *,
    with_places: bool = False,
) -> DataFrame:
    """Return the lines as a column `value`, one partition per part, in the order given.

    `with_places` adds `PLACE_COLUMN`: the path and, behind the last `@`, the byte where it begins.

    A line that is not UTF-8 is `NOT_UTF8`. The line ends (`\\n` or `\\r\\n`) are left out. Whoever
    skips the first line of a file has its header checked: it is read only there.
    """

    names = ["value", PLACE_COLUMN] if with_places else ["value"]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                for line_range in parts[part]:
                    at = line_range.start
                    skip = 1 if line_range.skip_line else 0
                    for block in blocks_of(_pieces(folder, line_range)):
                        text = split_lines(block)
                        if skip and check_header is not None and len(text):
                            check_header(line_range.path, text[0].as_py())
                        columns = [text.slice(skip)]
                        if with_places:
                            columns.append(_places(line_range.path, at, block).slice(skip))
                            at += len(block)
                        yield pa.RecordBatch.from_arrays(columns, names)
                        skip = 0

    count = len(parts)
    schema = ", ".join(f"{name} string" for name in names)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(read, schema)


def _places(path: str, start: int, block: bytes) -> pa.Array:
    """Return where each line of a block begins, which itself begins at `start` of its file."""
    starts = pa.array(_line_ends(block)[:-1].astype(np.int64) + start)
    starts = pa.concat_arrays([pa.array([start], pa.int64()), starts])
    return pc.binary_join_element_wise(f"{path}@", pc.cast(starts, pa.string()), "")


def _pieces(folder: Folder, line_range: LineRange) -> Iterator[bytes]:
    position = line_range.start
    while position < line_range.end:
        piece = folder.read(line_range.path, position, min(line_range.end, position + BLOCK_BYTES))
        if not piece:
            raise UserError(
                f"'{line_range.path}' became shorter while it was read", code="source_changed"
            )
        position += len(piece)
        yield piece


def lines_of(pieces: Iterator[bytes]) -> Iterator[pa.Array]:
    """Cut the pieces of one range into lines. The last line may lack its newline."""
    return map(split_lines, blocks_of(pieces))


def blocks_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Cut the pieces of one range into blocks of whole lines."""
    rest: list[bytes] = []
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            rest.append(piece)
            continue
        yield b"".join([*rest, piece[:cut]])
        rest = [piece[cut:]]
    last = b"".join(rest)
    if last:
        yield last


def split_lines(block: bytes) -> pa.Array:
    """Return the lines of a block as text, `NOT_UTF8` where they are none."""
    ends = _line_ends(block)
    offsets = np.concatenate([np.zeros(1, np.int32), ends]).astype(np.int32)
    raw = pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    )
    return pc.ascii_rtrim(utf8_text(raw), characters="\r\n")


def _line_ends(block: bytes) -> npt.NDArray[np.int32]:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE).astype(np.int32) + 1
    if len(ends) == 0 or ends[-1] != len(block):
        ends = np.append(ends, np.int32(len(block)))
    return ends


def utf8_text(raw: pa.Array) -> pa.Array:
    """Return bytes as text, `NOT_UTF8` where they are none. Nulls stay null."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        # Only an array that holds such a value pays for looking at each of them.
        return pa.array([_utf8(value) for value in raw.to_pylist()], pa.string())


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return NOT_UTF8
