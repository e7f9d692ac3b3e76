"""What sinks have Spark do to the rows before they are staged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.testing import open_sink
from tests.support.connectors import prepared_batches, stage_epochs, staged_bytes


@pytest.mark.parametrize("name", ["single_file", "filesystem", "stdout", "preview"])
def test_text_sinks_write_binary_as_base64_and_drop_hidden_columns(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    options: dict[str, Any] = {"path": str(tmp_path / "x")} if name != "stdout" else {}
    sink = open_sink(name, options | ({"format": "json"} if name == "filesystem" else {}))
    frame = spark.sql(
        "SELECT X'0001' AS raw, named_struct('l', array(X'FF')) AS n, "
        "INTERVAL '1 02:03:04' DAY TO SECOND AS i, TIMESTAMP '2023-01-01' AS _timestamp"
    )
    (epoch,) = stage_epochs(sink, [prepared_batches(sink, frame)])
    assert json.loads(staged_bytes(epoch)) == {
        "raw": "AAE=",
        "n": {"l": ["/w=="]},
        "i": "INTERVAL '1 02:03:04' DAY TO SECOND",
    }


def test_what_needs_no_shaping_is_left_as_it_is(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS a, array(TIMESTAMP '2023-01-01') AS t")
    sink = open_sink("stdout", {})
    assert sink.prepare(frame) is frame


def test_parquet_keeps_binary_and_the_event_time_only_where_it_is_needed(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.sql("SELECT X'0001' AS raw, TIMESTAMP '2023-01-01' AS _timestamp")
    options = {"path": str(tmp_path), "format": "parquet"}
    assert open_sink("filesystem", options).prepare(frame).columns == ["raw"]
    timed = open_sink("filesystem", {**options, "time_partition_pattern": "%Y"})
    assert timed.prepare(frame).columns == ["raw", "_timestamp"]
