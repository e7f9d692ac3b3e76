"""The single_file source: the lines of one local file, by byte offset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from headgate.connectors.base import SourceCut
from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.lines import BLOCK_BYTES, LineRange, read_line_ranges
from headgate.connectors.options import parse_options
from headgate.connectors.single_file.config import SingleFileSourceOptions
from headgate.core.errors import UserError
from headgate.core.graph import SourceSpec
from headgate.core.model import JsonValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SingleFileSource:
    """Position: the byte offset of the next line. The file must be complete before it is read."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._options = parse_options(SingleFileSourceOptions, spec.options)
        self._path = self._options.path.removeprefix("file://")

    def initial_position(self) -> JsonValue:
        return 0

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        start = cast(int, position)
        size = self._size()
        if size < start:
            raise UserError(
                f"'{self._path}' is {size} bytes long, but {start} bytes of it have been read: "
                "it was replaced. Put the old file back, or start a new job.",
                code="source_changed",
            )
        if start == 0 and self._has_header():
            # The first line is no row, so it does not count.
            rows_max += 1
        rows, end = scan_lines(self._path, start, size, rows_max)
        lag = round((size - end) * rows / (end - start)) if end > start else 0
        return SourceCut(end=end, rows=rows, lag_rows=lag, finished=end >= size)

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        first, last = cast(int, start), cast(int, end)
        if first == 0 and self._has_header():
            first = min(last, line_start(self._path, 1, last))
        cuts = split_at_lines(self._path, first, last, parallelism)
        parts = [[LineRange(path=self._path, start=a, end=b)] for a, b in cuts]
        lines = read_line_ranges(spark, parts, read_local)
        return decode_lines(
            spark,
            lines,
            table=self._spec.table,
            columns=self._spec.columns,
            options=self._options,
        )

    def _has_header(self) -> bool:
        return self._options.format == "csv" and self._options.csv_header

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError as error:
            raise UserError(f"there is no file '{self._path}'", code="path") from error


def scan_lines(path: str, start: int, size: int, rows_max: int) -> tuple[int, int]:
    """Return (rows, end) of at most `rows_max` whole lines from `start`.

    Counting newlines is much cheaper than parsing what stands between them, and exact. The last
    line of the file may lack its newline.
    """
    rows, position = 0, start
    with open(path, "rb") as file:
        file.seek(start)
        while position < size and rows < rows_max:
            block = file.read(min(BLOCK_BYTES, size - position))
            if not block:
                break
            found = block.count(b"\n")
            if rows + found < rows_max:
                rows, position = rows + found, position + len(block)
                last_byte = block[-1:]
                continue
            newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            return rows_max, position + int(newlines[rows_max - rows - 1]) + 1
    if position > start and last_byte != b"\n":
        rows += 1
    return rows, position


def line_start(path: str, position: int, limit: int) -> int:
    """Return the first start of a line at or after `position` > 0, or `limit`."""
    with open(path, "rb") as file:
        file.seek(position - 1)
        at = position - 1
        while at < limit:
            block = file.read(min(65_536, limit - at))
            if not block:
                break
            cut = block.find(b"\n")
            if cut >= 0:
                return at + cut + 1
            at += len(block)
    return limit


def split_at_lines(path: str, start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Split [start, end) into at most `parts` ranges of whole lines, in order."""
    cuts = [start]
    for part in range(1, parts):
        wanted = start + (end - start) * part // parts
        if wanted > cuts[-1]:
            cuts.append(line_start(path, wanted, end))
    cuts.append(end)
    return [(a, b) for a, b in pairwise(cuts) if a < b] or [(start, start)]


def read_local(line_range: LineRange) -> Iterator[bytes]:
    """Read a range of a local file in pieces. Runs inside a task."""
    with open(line_range.path, "rb") as file:
        file.seek(line_range.start)
        left = line_range.end - line_range.start
        while left > 0:
            piece = file.read(min(BLOCK_BYTES, left))
            if not piece:
                raise UserError(
                    f"'{line_range.path}' became shorter while it was read", code="source_changed"
                )
            left -= len(piece)
            yield piece
