"""The single_file sink: exactly once, because every epoch's bytes have a fixed place in the file.

The sink's state is the offset at which the next epoch begins. A publish writes the epoch's bytes
there, so to repeat it, even late and by a process that should be dead, changes nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headgate.connectors.base import StageContext, StageWriter
from headgate.connectors.formats.encode import TextEncoder
from headgate.connectors.formats.stage import header_of, in_order, stage_lines
from headgate.connectors.options import parse_options
from headgate.connectors.single_file.config import SingleFileSinkOptions
from headgate.connectors.single_file.ownership import Ownership
from headgate.core.checkpoint import StagedFile
from headgate.core.errors import StorageError, UserError
from headgate.core.failpoints import failpoint
from headgate.core.ids import Epoch, Generation, JobId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec
from headgate.storage.durable import sync_folder

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
        self._ownership = Ownership(Path(self._path))

    def set_generation(self, generation: Generation) -> None:
        self._ownership.generation = generation

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
            # Others may publish at the same time, but nobody may begin the file anew.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            self._ownership.check(job)
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
            self._ownership.check(job)
            return
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise UserError(
                f"there is no folder '{folder}' for '{self._path}': create it", code="target"
            )
        if os.path.exists(self._path) and os.path.getsize(self._path) > 0:
            if not self._options.overwrite:
                owner = self._ownership.read()
                whose = f"job {owner.job}" if owner else "someone else"
                raise UserError(
                    f"'{self._path}' exists and was written by {whose}: remove it, choose another "
                    "path, or set overwrite = true to replace it",
                    code="target",
                )
            self._replace(job)
        else:
            self._ownership.claim(job)

    def _replace(self, job: JobId) -> None:
        """Empty the file and claim it, in one step for everybody who publishes.

        A worker that slept since before its successor began would otherwise empty what that one
        has published, or write into what it has begun.
        """
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._ownership.check_not_begun_since(job)
            os.ftruncate(descriptor, 0)
            self._ownership.claim(job)
        finally:
            os.close(descriptor)


def _write_at(descriptor: int, data: bytes, offset: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
    return len(data)
