"""A micro-batch that is over leaves nothing behind in Spark's folder."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate.engine.plan import plans
from headgate.planner import plan
from tests.spark.operators.highest.spec import HighestSpec
from tests.spark.operators.pipeline import Run, chain, col, source_spec, timestamps
from tests.support.harness import PipelineHarness
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


def blocks(spark: SparkSession, kind: str) -> list[str]:
    """Return the blocks that Spark keeps in memory and on disk, of broadcasts for instance."""
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc
    # Not by their methods: those of an environment name classes that are not there.
    found = context.sc().env()
    for owner, name in (("SparkEnv", "blockManager"), ("storage.BlockManager", "blockInfoManager")):
        field = jvm.java.lang.Class.forName(f"org.apache.spark.{owner}").getDeclaredField(name)
        field.setAccessible(True)
        found = field.get(found)
    names, entries = [], found.entries()
    while entries.hasNext():
        names.append(entries.next()._1().name())
    return [name for name in names if name.startswith(kind)]


LOOKUP = """
CREATE TABLE orders (id BIGINT, item BIGINT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TEMPORARY TABLE items (id BIGINT PRIMARY KEY, kind TEXT) WITH (
  connector = 'filesystem', path = '{root}/items', format = 'parquet');
CREATE TABLE per_kind WITH (
  connector = 'single_file', path = '{root}/per_kind.json', format = 'json', type = 'sink');
INSERT INTO per_kind SELECT kind, count(*) AS n FROM orders o JOIN items i ON i.id = o.item
GROUP BY kind, tumble(interval '1 second');
"""


@pytest.mark.verify
def test_what_micro_batches_have_broadcast_does_not_pile_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders = [
        {"id": i, "item": i % 50, "at": f"2024-01-01T00:{i // 60 % 60:02}:{i % 60:02}Z"}
        for i in range(COUNT)
    ]
    (tmp_path / "orders.json").write_text("".join(json.dumps(o) + "\n" for o in orders))
    (tmp_path / "items").mkdir()
    items = pa.table({"id": list(range(5_000)), "kind": [f"kind {i % 9}" for i in range(5_000)]})
    pq.write_table(items, tmp_path / "items" / "one.parquet")
    harness = PipelineHarness(spark, plan(LOOKUP.format(root=tmp_path)), tmp_path)
    before = set(blocks(spark, "broadcast_"))
    outcome = harness.run(rows_per_batch=4)
    assert outcome.finished
    assert outcome.batches >= COUNT // 4
    # Each has made several: its code, the table that it joins. Spark removes them when the JVM
    # collects its young objects, which is often enough.
    assert len(set(blocks(spark, "broadcast_")) - before) < 2 * outcome.batches


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
