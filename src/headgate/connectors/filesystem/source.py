"""The filesystem source: the files of a folder in order of their time, whole files per cut."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headgate.connectors.bad_lines import LineJudge, find_bad_line
from headgate.connectors.base import BadRow, KnownRows, SourceCut
from headgate.connectors.filesystem.config import FilesystemSourceOptions
from headgate.connectors.filesystem.measure import FileMeasure
from headgate.connectors.filesystem.parquet import read_with_arrow, read_with_spark
from headgate.connectors.filesystem.position import (
    CutFile,
    FilePosition,
    FileStep,
    ReadFiles,
    file_key,
    take_files,
)
from headgate.connectors.formats.csv_header import header_check
from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.lines import (
    PLACE_COLUMN,
    LineRange,
    read_line_ranges,
    split_ranges,
)
from headgate.connectors.options import parse_options
from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import InternalError, UserError
from headgate.core.model import JsonValue, from_python, to_python
from headgate.core.ports import ObjectInfo
from headgate.operators import SourceSpec
from headgate.storage.folder import Folder, is_local, local_path, open_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FilesystemSource:
    """Position: see `position.py`. Files are complete when they appear, and never change."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._options = parse_options(FilesystemSourceOptions, spec.options)
        self._folder = open_folder(self._options.path, self._options.storage)
        self._pattern = re.compile(self._options.regex_pattern or "")
        self._poll_ms = parse_nanoseconds(self._options.poll_interval) // 1_000_000
        self._read_files = ReadFiles()
        self._measure = FileMeasure(self._folder, self._options.format)
        self._listing: list[ObjectInfo] = []
        self._listed_ms: int | None = None

    def initial_position(self) -> JsonValue:
        return FilePosition().dump()

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        here = FilePosition.parse(position)
        self._list(now_ms)
        bounded = self._options.read_mode == "bounded"
        if bounded and here.bound is None:
            here = self._bounded(here)
            if here.bound is None:
                return SourceCut(end=position, rows=0, lag_rows=0, finished=True)
        unread = self._read_files.unread(here, self._listing)
        if not unread:
            return SourceCut(end=position, rows=0, lag_rows=0, finished=bounded)
        taken, rows = take_files(unread, rows_max, self._measure.rows)
        cut = [
            CutFile(path=f.path, bytes=f.bytes, foreign=self._measure.is_foreign(f)) for f in taken
        ]
        end = self._read_files.advance(here, cut, self._listing, self._options.remember_files)
        step = FileStep(cut=end.cut, files=end.files)
        # A cut that bounds the source or forgets old files is kept whole.
        steps = step.after(FilePosition.parse(position)) == end
        rest = unread[len(taken) :]
        waiting = sum(f.bytes for f in rest) / max(1, sum(f.bytes for f in taken))
        return SourceCut(
            end=end.dump(),
            rows=rows,
            lag_rows=round(waiting * rows),
            finished=bounded and not rest,
            step=to_python(step) if steps else None,
        )

    def position_after(self, position: JsonValue, step: JsonValue) -> JsonValue:
        taken: FileStep = from_python(FileStep, step)
        return taken.after(FilePosition.parse(position)).dump()

    def _bounded(self, here: FilePosition) -> FilePosition:
        last = max((file_key(f) for f in self._listing), default=None)
        return replace(here, bound=last)

    def _list(self, now_ms: int) -> None:
        """List the folder, unless the last listing is fresh: a backlog is cut from one listing."""
        if self._listed_ms is not None and 0 <= now_ms - self._listed_ms < self._poll_ms:
            return
        if not self._folder.exists():
            raise UserError(
                f"there is no folder '{self._options.path}': create it, or correct 'path'",
                code="path",
            )
        # An empty file is one that somebody has only begun to write.
        self._listing = [
            f
            for f in self._folder.list()
            if f.bytes > 0 and is_visible(f.path) and self._pattern.search(f.path)
        ]
        self._listed_ms = now_ms

    def known(self, start: JsonValue, end: JsonValue, column: str) -> KnownRows | None:
        if self._options.format != "parquet":
            return None
        files = _files_between(start, end)
        footers = [self._measure.footer(f.path, f.bytes) for f in files]
        if any(footer.foreign or column not in footer.latest_us for footer in footers):
            return None
        times = [t for t in (footer.latest_us[column] for footer in footers) if t is not None]
        return KnownRows(rows=sum(f.rows for f in footers), latest_us=max(times, default=None))

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        files = _files_between(start, end)
        if self._options.format == "parquet":
            return self._read_parquet(spark, files, parallelism)
        lines = read_line_ranges(
            spark,
            self._folder,
            split_ranges(self._folder, self._ranges(files), parallelism),
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
        # The URL of an object store may hold credentials in its query.
        root = self._options.path.partition("?")[0].rstrip("/")
        return LineJudge(self._folder, root, self._spec.columns, self._options)

    def find_bad(self, start: JsonValue, end: JsonValue, sample: str) -> BadRow | None:
        if self._options.format == "parquet":
            return None
        return find_bad_line(self._ranges(_files_between(start, end)), self.judge(), sample)

    def _ranges(self, files: tuple[CutFile, ...]) -> list[LineRange]:
        header = self._options.format == "csv" and self._options.csv_header
        return [LineRange(path=f.path, start=0, end=f.bytes, skip_line=header) for f in files]

    def reach_check(self) -> FolderReach:
        return FolderReach(self._folder)

    def _read_parquet(
        self, spark: SparkSession, files: tuple[CutFile, ...], parallelism: int
    ) -> DataFrame:
        by_spark = [f for f in files if is_local(self._options.path) and not f.foreign]
        by_arrow = [f for f in files if f not in by_spark]
        frames = []
        if by_spark:
            root = local_path(self._options.path)
            frames.append(read_with_spark(spark, root, by_spark, self._spec.columns))
        if by_arrow or not frames:
            frames.append(
                read_with_arrow(spark, self._folder, by_arrow, self._spec.columns, parallelism)
            )
        return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


@dataclass(frozen=True)
class FolderReach:
    """Looks into the folder, in a task. The sink needs no such check: the driver publishes."""

    folder: Folder

    def __call__(self) -> None:
        self.folder.check_answers()


def _files_between(start: JsonValue, end: JsonValue) -> tuple[CutFile, ...]:
    first, last = FilePosition.parse(start), FilePosition.parse(end)
    if last.cut != first.cut + 1:
        raise InternalError("a filesystem source reads one cut at a time")
    return last.files


def is_visible(path: str) -> bool:
    """Whether no part of the path starts with `.` or `_`: such files are somebody's workings."""
    return not any(part.startswith((".", "_")) for part in path.split("/"))
