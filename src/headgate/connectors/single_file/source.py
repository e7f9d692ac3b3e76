"""The single_file source: the lines of one local file, by byte offset."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headgate.connectors.bad_lines import LineJudge, find_bad_line
from headgate.connectors.base import BadRow, SourceCut
from headgate.connectors.formats.csv_header import header_check
from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.lines import (
    PLACE_COLUMN,
    LineRange,
    read_line_ranges,
    scan_lines,
    split_ranges,
)
from headgate.connectors.options import parse_options
from headgate.connectors.single_file.config import SingleFileSourceOptions
from headgate.core.errors import UserError
from headgate.core.model import JsonValue
from headgate.operators import SourceSpec
from headgate.storage.folder import local_path, open_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FileReach:
    """Looks whether the file is there, in a task."""

    path: str

    def __call__(self) -> None:
        if not os.path.isfile(self.path):
            raise UserError(f"there is no file '{self.path}'", code="path")


class SingleFileSource:
    """Position: the byte offset of the next line. The file must be complete before it is read."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._options = parse_options(SingleFileSourceOptions, spec.options)
        self._path = local_path(self._options.path)
        root, self._name = os.path.split(self._path)
        self._folder = open_folder(root, {})

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
        # The header is a line, but no row.
        header = 1 if self._starts_with_header(start) and size > 0 else 0
        lines, end = scan_lines(self._folder, self._name, start, size, rows_max + header)
        rows = lines - header
        lag = round((size - end) * rows / (end - start)) if end > start else 0
        return SourceCut(end=end, rows=rows, lag_rows=lag, finished=end >= size)

    def reach_check(self) -> FileReach:
        return FileReach(self._path)

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        parts = split_ranges(self._folder, self._ranges(start, end), parallelism)
        lines = read_line_ranges(
            spark,
            self._folder,
            parts,
            header_check(self._spec, self._options),
            with_places=self._options.dead_letters is not None,
        )
        return decode_lines(
            spark,
            lines,
            table=self._spec.table,
            columns=self._spec.columns,
            options=self._options,
            place=PLACE_COLUMN,
        )

    def judge(self) -> LineJudge:
        root = os.path.dirname(self._path)
        return LineJudge(self._folder, root, self._spec.columns, self._options)

    def find_bad(self, start: JsonValue, end: JsonValue, sample: str) -> BadRow | None:
        return find_bad_line(self._ranges(start, end), self.judge(), sample)

    def _ranges(self, start: JsonValue, end: JsonValue) -> list[LineRange]:
        first, last = cast(int, start), cast(int, end)
        skip = self._starts_with_header(first)
        return [LineRange(path=self._name, start=first, end=last, skip_line=skip)]

    def _starts_with_header(self, position: int) -> bool:
        return position == 0 and self._options.format == "csv" and self._options.csv_header

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError as error:
            raise UserError(f"there is no file '{self._path}'", code="path") from error
