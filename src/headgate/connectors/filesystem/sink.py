"""The filesystem sink: exactly once, because a file's name is fixed by what is in it.

Each subtask stages finished files. A publish gives them their final names, which are made of job,
sink, epoch, subtask and a number: to repeat it replaces each file by itself.

Before its first file a job leaves a marker in the folder, named like the beginning of its files'
names. So a start looks for one object and not through all the output: it takes as long after a
year as on the first day, and a job is never mistaken for one whose name ends like its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.connectors.base import StageContext, StageWriter
from headgate.connectors.filesystem.config import FilesystemSinkOptions
from headgate.connectors.filesystem.partitions import partition_rows
from headgate.connectors.filesystem.roll import FileRoller, ParquetFile, TextFile
from headgate.connectors.formats.encode import SUFFIXES, TextEncoder
from headgate.connectors.formats.stage import in_order
from headgate.connectors.options import parse_options
from headgate.core.checkpoint import StagedFile
from headgate.core.errors import UserError
from headgate.core.failpoints import failpoint
from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec
from headgate.storage.folder import Folder, open_folder
from headgate.storage.local import OWN_FOLDER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headgate.connectors.formats.prepare import TextShape


class FilesystemSink:
    """No state and no commit data: the staged files say all that a publish needs."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._options = parse_options(FilesystemSinkOptions, spec.options)
        self._shape: TextShape | None = None
        self._encoder = TextEncoder(self._options, spec.columns)
        self._folder = open_folder(self._options.path, self._options.storage)
        self._marked: set[str] = set()

    def prepare(self, df: DataFrame) -> DataFrame:
        from headgate.connectors.formats.prepare import HIDDEN, TextShape

        keep = (TIMESTAMP_COLUMN,) if self._options.time_pattern else ()
        if self._options.format == "parquet":
            return df.drop(*(name for name in HIDDEN if name not in keep))
        if self._shape is None:
            self._shape = TextShape(self._options, self._spec, keep)
        return self._shape.apply(df)

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        roller = FileRoller(
            self._new_file,
            writer,
            file_bytes=self._options.file_size,
            suffix=self._suffix(),
            extra={"sink": context.sink},
        )
        for batch in batches:
            for folder, rows in partition_rows(
                batch, self._options.partition_fields, self._options.time_pattern
            ):
                roller.write(folder, rows)
        return roller.close()

    def _new_file(self) -> ParquetFile | TextFile:
        if self._options.format == "parquet":
            return ParquetFile(
                self._options.parquet_compression, self._options.parquet_row_group_size
            )
        return TextFile(self._encoder)

    def _suffix(self) -> str:
        return self._options.filename_suffix or SUFFIXES[self._options.format]

    def prepare_commit(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        return None, None

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: Callable[[StagedFile], bytes],
    ) -> None:
        names = self.final_names(job, epoch, staged)
        for beginning in {self._beginning(job, file) for file in staged} - self._marked:
            self._folder.write(_marker(job, beginning), b"")
            self._marked.add(beginning)
        for position, (name, file) in enumerate(names.items()):
            if position:
                failpoint("worker.middle_of_publish")
            self._folder.write(name, read_staged(file))

    def final_names(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile]
    ) -> dict[str, StagedFile]:
        """Return the final path of every staged file: `k=v/job-sink-0000007-000-0.parquet`."""
        return {
            f"{file.extra['folder']}{self._beginning(job, file)}{epoch:07}"
            f"-{file.subtask:03}-{number}{self._suffix()}": file
            for number, file in enumerate(in_order(staged))
        }

    def _beginning(self, job: JobId, file: StagedFile) -> str:
        prefix = f"{self._options.filename_prefix}-" if self._options.filename_prefix else ""
        return f"{prefix}{job}-{file.extra['sink']}-"

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        self._folder.check_writable()
        if resuming:
            return
        for marker in list(self._folder.list(f"{OWN_FOLDER}/{job}")):
            left = _first_output(self._folder, _beginning_of(marker.path))
            if left is not None:
                raise UserError(
                    f"'{self._options.path}' holds output of an earlier life of job {job}, for "
                    f"example {left}: remove it before the job starts from the beginning",
                    code="target",
                )
            # The output was removed, and the marker forgotten.
            self._folder.delete(marker.path)


def _marker(job: JobId, beginning: str) -> str:
    # Hidden, like its folder: whoever reads the output passes over both.
    return f"{OWN_FOLDER}/{job}/.{beginning}"


def _beginning_of(marker: str) -> str:
    return marker.rpartition("/")[2].removeprefix(".")


def _first_output(folder: Folder, beginning: str) -> str | None:
    """Look through all the output, for the one job that may not start."""
    ours = re.compile(re.escape(beginning) + r"\d{7,}-\d{3,}-\d+(\..*)?")
    return next((f.path for f in folder.list() if ours.fullmatch(f.path.rpartition("/")[2])), None)
