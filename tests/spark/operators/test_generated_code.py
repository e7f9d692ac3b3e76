"""What Spark compiles in one micro-batch serves the next ones, whatever changes between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.support.harness import PipelineHarness

SQL = """
CREATE TABLE clicks (page TEXT, id BIGINT) WITH (
  connector = 'single_file', path = '{root}/clicks.json', format = 'json', type = 'source');
CREATE TABLE counts WITH (
  connector = 'single_file', path = '{root}/counts.json', format = 'debezium_json', type = 'sink');
INSERT INTO counts SELECT page, count(*) AS n FROM clicks GROUP BY page;
"""
# What the daemon must not have when it forks.
THREADS = "import os, headgate.engine.jvm.preloaded; print(len(os.listdir('/proc/self/task')))"


def compiled_classes(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_ingestion_time_is_not_compiled_into_the_code(spark: SparkSession, tmp_path: Path) -> None:
    clicks = [{"page": f"p{i % 3}", "id": i} for i in range(60)]
    (tmp_path / "clicks.json").write_text("".join(json.dumps(c) + "\n" for c in clicks))
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path)), tmp_path)
    compiled = []
    for hour in range(4):
        now_ms = 1_700_000_000_000 + hour * 3_600_000
        outcome = harness.run(rows_per_batch=5, stop_at_batch=1, now_ms=now_ms)
        assert not outcome.failures, outcome.failures
        assert not outcome.finished
        compiled.append(compiled_classes(spark))
    # The first run compiles, the second what a restore needs; from then on there is nothing new.
    assert compiled[3] == compiled[2] == compiled[1]


def test_python_workers_are_forked_from_a_process_with_one_thread(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()
    prefix = "spark.executorEnv."
    environment = {k.removeprefix(prefix): v for k, v in settings.getAll() if k.startswith(prefix)}
    assert environment
    found = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "1"
    assert settings.get("spark.python.daemon.module") == "headgate.engine.jvm.daemon"
