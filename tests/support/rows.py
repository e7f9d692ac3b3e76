"""A source over rows in memory and a sink that shows what was published, for tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.connectors.base import SourceCut, StageContext, StageWriter
from headgate.core.checkpoint import StagedFile
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue


class RowsSource:
    """The rows of an Arrow table, in order; a position is an index. Ends after the last row."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def initial_position(self) -> JsonValue:
        return 0

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        assert isinstance(position, int)
        end = min(position + rows_max, self._rows.num_rows)
        left = self._rows.num_rows - end
        return SourceCut(end=end, rows=end - position, lag_rows=left, finished=left == 0)

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        assert isinstance(start, int)
        assert isinstance(end, int)
        return spark.createDataFrame(self._rows.slice(start, end - start))


class PublishedSink:
    """Publishes each epoch as one JSON file named by (job, epoch): repeating it changes nothing."""

    guarantee = "exactly_once"

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def prepare(self, df: DataFrame) -> DataFrame:
        return df.drop("_timestamp").selectExpr(
            "to_json(struct(*), map('ignoreNullFields', 'false')) AS value"
        )

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        lines = [line for batch in batches for line in batch.column(0).to_pylist()]
        return [writer.write(".json", "\n".join(lines).encode(), len(lines))] if lines else []

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
        os.makedirs(self._folder, exist_ok=True)
        text = "\n".join(read_staged(file).decode() for file in staged)
        Path(self._folder, f"{job}-{epoch:07}.json").write_text(text)

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        return

    def rows(self) -> list[dict[str, Any]]:
        """Return every published row, epoch by epoch."""
        files = sorted(Path(self._folder).glob("*.json")) if os.path.isdir(self._folder) else []
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]
