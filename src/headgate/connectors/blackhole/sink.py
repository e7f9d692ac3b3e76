"""The blackhole sink. The rows are counted by the engine, as in every sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.connectors.base import StageContext, StageWriter
from headgate.core.checkpoint import StagedFile
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class BlackholeSink:
    """Exactly once, in the sense that nothing is written at all."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec

    def prepare(self, df: DataFrame) -> DataFrame:
        return df

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        # The rows are made, not only promised: a pipeline is measured with this sink.
        for _ in batches:
            pass
        return []

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
        """Nothing to show."""

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        """Every job may use it."""
