"""A source that knows its rows moves the watermark before they are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.support.harness import PipelineHarness

SQL = """
CREATE TABLE readings (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (
  connector = 'filesystem', type = 'source', path = '{root}/in', format = 'parquet',
  'source.read_mode' = '{mode}');
CREATE TABLE sums (start TIMESTAMP, total BIGINT) WITH (
  connector = 'filesystem', type = 'sink', path = '{root}/out', format = 'parquet');
INSERT INTO sums SELECT window.start, total FROM (
  SELECT tumble(INTERVAL '10 seconds') AS window, sum(v) AS total FROM readings GROUP BY window);
"""


def write(root: Path, name: str, seconds: list[int]) -> None:
    (root / "in").mkdir(exist_ok=True)
    times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"v": [1] * len(seconds), "ts": times}), root / "in" / name)


def published(root: Path) -> dict[int, int]:
    """Return the total of every window by the second it starts at."""
    rows = [row for path in (root / "out").glob("*.parquet") for row in read(path)]
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def read(path: Path) -> list[tuple[int, int]]:
    rows = pq.read_table(path).to_pylist()
    return [(int(row["start"].timestamp()), row["total"]) for row in rows]


def test_a_micro_batch_emits_what_its_own_rows_close(spark: SparkSession, tmp_path: Path) -> None:
    # Out of order by far more than the delay: no row is late because of its own micro-batch.
    write(tmp_path, "1.parquet", [27, 1, 12, 2, 14, 3])
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path, mode="streaming")), tmp_path)
    outcome = harness.run(stop_at_batch=0)
    assert (outcome.batches, outcome.progress.rows_late) == (1, 0)
    assert published(tmp_path) == {0: 3, 10: 2}
    # What comes later than that is late, and only that.
    write(tmp_path, "2.parquet", [19, 21, 36])
    outcome = harness.run(stop_at_batch=0)
    assert (outcome.batches, outcome.progress.rows_late) == (1, 1)
    assert published(tmp_path) == {0: 3, 10: 2, 20: 2}


def test_the_last_rows_of_a_bounded_source_close_everything(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1.parquet", [1, 12])
    write(tmp_path, "2.parquet", [11, 22])
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path, mode="bounded")), tmp_path)
    outcome = harness.run(rows_per_batch=2)
    assert outcome.finished
    # One micro-batch per file, enough to emit everything, and that of the final checkpoint.
    assert outcome.batches == 3
    assert published(tmp_path) == {0: 1, 10: 2, 20: 1}
