"""Sinks for people: lines that are shown at each publish, on standard output or in a file.

They stage and publish like the others, so a row is shown when its epoch is recorded, and once per
life of the worker. A crash between showing and the committed marker repeats the epoch's lines:
the terminal cannot be asked what it has shown. Hence `at_least_once` in their descriptors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.connectors.base import StageContext, StageWriter
from headgate.connectors.formats.encode import TextEncoder
from headgate.connectors.formats.options import SinkFormat
from headgate.connectors.formats.stage import in_order, stage_lines
from headgate.core.checkpoint import StagedFile
from headgate.core.failpoints import failpoint
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headgate.connectors.formats.prepare import TextShape


class PrintSink:
    """Appends each epoch's lines to `path`, or to the worker's standard output."""

    def __init__(self, spec: SinkSpec, options: SinkFormat, path: str | None) -> None:
        self._spec = spec
        self._options = options
        self._shape: TextShape | None = None
        self._encoder = TextEncoder(options, spec.columns)
        self._path = path

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
        return None, None

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: Callable[[StagedFile], bytes],
    ) -> None:
        for position, file in enumerate(in_order(staged)):
            if position:
                failpoint("worker.middle_of_publish")
            self._show(read_staged(file))

    def _show(self, data: bytes) -> None:
        if self._path is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        # One write to a file opened for appending: lines of two writers do not mix.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        """Every job may use it."""
