"""On a real Spark cluster: a Master and two Workers; one of them dies in the middle of the work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_exactly_once import (  # noqa: F401 - fixtures
    Slice,
    assert_exact,
    expected,
    orders,
)
from tests.support.spark_cluster import SparkCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    (tmp_path / "cluster").mkdir()
    running = SparkCluster(tmp_path / "cluster", workers=2)
    yield running
    running.close()


def test_the_files_of_shuffles_on_the_workers_do_not_outlive_their_micro_batches(
    tmp_path: Path,
    cluster: SparkCluster,
    orders: Path,  # noqa: F811
    expected: set[tuple[Any, ...]],  # noqa: F811
) -> None:
    job = Slice(tmp_path, orders, "filesystem")
    process = job.start(
        extra=(
            *("--master", cluster.url, "--max-batch-rows", "1000"),
            *("--set", "spark.executor.memory=512m", "--set", "spark.driver.memory=1g"),
        )
    )
    seen: set[str] = set()
    most = 0
    while not process.has_ended(within_seconds=0.05):
        there = {path.name for path in cluster.files("shuffle_")}
        most, seen = max(most, len(there)), seen | there
    assert process.finish() == 0, process.story()
    assert_exact(job, expected)
    # Of many micro-batches, those of the one that runs and of the one that is being cleaned up.
    assert len(seen) > 10 * most, (len(seen), most)


def test_a_spark_worker_killed_in_the_middle_changes_nothing(
    tmp_path: Path,
    cluster: SparkCluster,
    orders: Path,  # noqa: F811
    expected: set[tuple[Any, ...]],  # noqa: F811
) -> None:
    job = Slice(tmp_path, orders, "filesystem")
    process = job.start(
        extra=(
            *("--master", cluster.url),
            *("--set", "spark.executor.memory=512m", "--set", "spark.driver.memory=1g"),
        )
    )
    process.wait_for("CheckpointNote", 2)
    cluster.kill_worker(0)
    assert process.finish() == 0, process.story()
    assert process.states()[-1] == "finished"
    assert_exact(job, expected)
