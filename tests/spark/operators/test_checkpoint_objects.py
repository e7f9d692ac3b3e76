"""What a checkpoint costs in objects: on an object store every one of them has a price."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.support.harness import PipelineHarness

OBJECTS_MAX = 12
SQL = """
CREATE TABLE orders (id BIGINT, shop TEXT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TABLE sums WITH (
  connector = 'filesystem', path = '{root}/sums', format = 'parquet', type = 'sink');
INSERT INTO sums
SELECT shop, sum(id) AS ids FROM orders GROUP BY shop, tumble('10 seconds');
"""


def objects(root: Path) -> int:
    """Count everything that lies in the state folder and in the target."""
    return sum(p.is_file() for folder in ("state", "sums") for p in (root / folder).rglob("*"))


def test_a_checkpoint_of_one_stateful_operator_writes_at_most_twelve_objects(
    spark: SparkSession, tmp_path: Path
) -> None:
    with (tmp_path / "orders.json").open("w") as file:
        for i in range(100):
            row = {"id": i, "shop": f"s{i % 5}", "at": f"2024-01-01T00:{i // 60:02}:{i % 60:02}Z"}
            file.write(json.dumps(row) + "\n")
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path)), tmp_path)
    first = harness.run(rows_per_batch=10, barrier_every=1, kill_at_batch=2)
    before = objects(tmp_path)
    second = harness.run(rows_per_batch=10, barrier_every=1, kill_at_batch=7)
    epochs = second.recorded - first.recorded
    assert epochs >= 2
    # A generation and a graph are claimed and written once, not per checkpoint.
    written = objects(tmp_path) - before
    assert written <= OBJECTS_MAX * epochs, sorted((tmp_path / "state").rglob("*"))
    # Every subtask had state and output, so that nothing was spared by having nothing to write.
    assert len(list((tmp_path / "sums").rglob("*.parquet"))) >= epochs


def test_progress_tells_rows_and_times_of_every_operator(
    spark: SparkSession, tmp_path: Path
) -> None:
    row = '{{"id": {}, "shop": "s", "at": "2024-01-01T00:00:{:02}Z"}}\n'
    (tmp_path / "orders.json").write_text("".join(row.format(i, i) for i in range(40)))
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path)), tmp_path)
    progress = harness.run(rows_per_batch=20).progress
    counted = {name.split("-")[0]: rows for name, rows in progress.operators.items()}
    assert (counted["source"].rows_in, counted["source"].rows_out) == (40, 40)
    # One row per window leaves the operator, and reaches the sink.
    window = next(rows for name, rows in counted.items() if name not in ("source", "sink"))
    assert (window.rows_out, window.rows_late) == (4, 0)
    assert counted["sink"].rows_in == 4
    assert {"plan_ms", "spark_ms", "state_ms", "upload_ms"} <= progress.timings.keys()
    # The last micro-batch ended with a barrier: something was written.
    assert progress.timings["upload_ms"] > 0
