"""A micro-batch that is over leaves nothing behind in Spark's folder."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.engine.plan import plans
from tests.spark.operators.highest.spec import HighestSpec
from tests.spark.operators.pipeline import Run, chain, col, source_spec, timestamps
from tests.support.waiting import eventually

COUNT = 240
GRAPH = chain(
    source_spec([("k", "bigint"), ("v", "bigint"), ("ts", "timestamp")]),
    HighestSpec(key=col("k"), value=col("v")),
)
ROWS = pa.table(
    {
        "k": pa.array([i % 5 for i in range(COUNT)], pa.int64()),
        "v": pa.array(range(COUNT), pa.int64()),
        "ts": timestamps([i * 100_000 for i in range(COUNT)]),
    }
)


def files(spark: SparkSession) -> list[Path]:
    """Return Spark's files: shuffles, blocks, and what PySpark sends through them."""
    folder = Path(spark.conf.get("spark.local.dir") or "")
    assert folder.is_dir()
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_files_of_shuffles_do_not_outlive_their_micro_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = {path for path in files(spark) if path.name.startswith("shuffle_")}
    run = Run(spark, tmp_path, GRAPH, ROWS)
    outcome = run.harness.run(rows_per_batch=8, barrier_every=5)
    assert outcome.batches >= COUNT // 8

    def left() -> set[Path]:
        return {path for path in files(spark) if path.name.startswith("shuffle_")} - before

    # Spark removes them beside the next micro-batch; after the last one that takes a moment.
    assert eventually(lambda: not left(), patience=20.0), left()


def test_a_function_too_long_for_a_task_is_removed_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "BROADCAST_BYTES", 10)
    sent: list[Any] = []
    original = spark.sparkContext.broadcast
    monkeypatch.setattr(
        type(spark.sparkContext),
        "broadcast",
        lambda context, value: sent.append(original(value)) or sent[-1],
    )
    before = len(files(spark))
    run = Run(spark, tmp_path, GRAPH, ROWS)
    outcome = run.harness.run(rows_per_batch=24)
    assert outcome.finished
    assert len(sent) >= outcome.batches
    sent.clear()
    gc.collect()
    assert len(files(spark)) <= before + 5
