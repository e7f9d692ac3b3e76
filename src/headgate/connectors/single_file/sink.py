"""The single_file sink: exactly once, because every epoch's bytes have a fixed place in the file.

The sink's state is the offset at which the next epoch begins. A publish writes the epoch's bytes
there, so to repeat it, even late and by a process that should be dead, changes nothing.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headgate.connectors.base import StageContext, StageWriter
from headgate.connectors.formats.encode import TextEncoder
from headgate.connectors.formats.stage import header_of, in_order, stage_lines
from headgate.connectors.options import parse_options
from headgate.connectors.single_file.config import SingleFileSinkOptions
from headgate.core.checkpoint import StagedFile
from headgate.core.errors import StorageError, UserError
from headgate.core.failpoints import failpoint
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec
from headgate.storage.durable import sweep_temporaries, sync_folder, write_durable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headgate.connectors.formats.prepare import TextShape


class SingleFileSink:
    """State: {"next_offset"}. Commit data: {"offset", "length"} of the epoch in the file."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._options = parse_options(SingleFileSinkOptions, spec.options)
        self._shape: TextShape | None = None
        self._encoder = TextEncoder(self._options, spec.columns)
        self._path = os.path.abspath(self._options.path.removeprefix("file://"))

    def prepare(self, df: DataFrame) -> DataFrame:
        from headgate.connectors.formats.prepare import TextShape

        if self._shape is None:
            self._shape = TextShape(self._options, self._spec)
        return self._shape.apply(df)

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        return stage_lines(batches, self._encoder, self._options.format, writer)

    def prepare_commit(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        offset = cast(dict[str, int], state)["next_offset"] if state else 0
        length = sum(file.bytes for file in staged)
        if offset == 0:
            length += len(header_of(staged))
        return {"offset": offset, "length": length}, {"next_offset": offset + length}

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: Callable[[StagedFile], bytes],
    ) -> None:
        place = cast(dict[str, int], commit)
        offset = place["offset"]
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size < offset:
                raise StorageError(
                    f"'{self._path}' is {size} bytes long, but this job has written {offset}: "
                    "it was cut or removed by someone else",
                    code="target_changed",
                )
            if offset == 0:
                offset += _write_at(descriptor, header_of(staged), 0)
            for position, file in enumerate(in_order(staged)):
                if position:
                    failpoint("worker.middle_of_publish")
                offset += _write_at(descriptor, read_staged(file), offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(Path(self._path).parent)

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        if resuming:
            owner = self._owner()
            if owner is not None and owner != job:
                raise UserError(
                    f"'{self._path}' now belongs to job {owner}: give this job another path",
                    code="target",
                )
            return
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise UserError(
                f"there is no folder '{folder}' for '{self._path}': create it", code="target"
            )
        if os.path.exists(self._path) and os.path.getsize(self._path) > 0:
            if not self._options.overwrite:
                owner = self._owner()
                whose = f"job {owner}" if owner else "someone else"
                raise UserError(
                    f"'{self._path}' exists and was written by {whose}: remove it, choose another "
                    "path, or set overwrite = true to replace it",
                    code="target",
                )
            os.truncate(self._path, 0)
        self._claim(job)

    @property
    def _sidecar(self) -> Path:
        folder, name = os.path.split(self._path)
        return Path(folder, f".{name}.headgate.json")

    def _owner(self) -> str | None:
        """Return the job that has claimed the file; None if nobody has."""
        try:
            data = self._sidecar.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return cast(str, json.loads(data)["job"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"'{self._sidecar}' says which job writes '{self._path}', but cannot be read "
                f"({error}): if it is this job, remove '{self._sidecar}' and start again",
                code="target",
            ) from error

    def _claim(self, job: JobId) -> None:
        sweep_temporaries(self._sidecar.parent, f"{glob.escape(self._sidecar.name)}.*")
        write_durable(self._sidecar, json.dumps({"job": job}).encode())


def _write_at(descriptor: int, data: bytes, offset: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
    return len(data)
