"""Executors die, freeze, leave and come in the middle of a job: exact, and without a restart.

A Spark cluster of three Workers on this machine. Nothing of what an executor has written is read
by another except through the store, as on hosts that share nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.core.applications import application_name
from headgate.core.failpoints import FOLDER_VARIABLE, REACHED
from headgate.core.ids import Generation, JobId
from tests.integration.test_exactly_once import (  # noqa: F401 - fixtures
    START,
    WIDTH,
    Slice,
    assert_exact,
    expected,
    orders,
)
from tests.support.cli import WAIT_SECONDS, HeadgateProcess
from tests.support.needed import in_soak
from tests.support.processes import descendants, name_of, parents
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.timeout(900)

HOLD_MS = 4_000
# For machines that are busy with other things.
END_SECONDS = 600.0

# The sink has a stage of its own: its rows come through one more exchange.
NESTED_SQL = """
CREATE TABLE orders (
  id BIGINT, shop TEXT, amount BIGINT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = '{input}', format = 'json', type = 'source');

CREATE TABLE totals (
  shop TEXT, started TIMESTAMP, orders BIGINT, total BIGINT, smallest BIGINT, largest BIGINT,
  average DOUBLE
) WITH (connector = 'filesystem', path = '{output}/totals', format = 'parquet', type = 'sink');

INSERT INTO totals
SELECT min(shop), window.start, sum(orders), sum(total), min(smallest), max(largest), 1.0 FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders,
         sum({amount}) AS total, min(amount) AS smallest, max(amount) AS largest
  FROM orders GROUP BY shop, window
) GROUP BY window;
"""
FUNCTIONS = '''
import os, time
from pathlib import Path
from headgate import udf

FOLDER = Path({folder!r})

@udf
def held(amount: int) -> int:
    """The same number; the first process that is asked for it says so, and takes its time."""
    try:
        (FOLDER / "map").rename(FOLDER / "map.reached")
    except FileNotFoundError:
        return amount
    (FOLDER / "map.reached").write_text(f"map\\n{{os.getpid()}}\\n")
    time.sleep({hold})
    return amount
'''


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    running = SparkCluster(tmp_path_factory.mktemp("cluster"), workers=3)
    yield running
    running.close()


class Job(Slice):
    """The slice with an exchange before its sink, on a cluster whose tasks can be held up."""

    def __init__(self, root: Path, orders: Path, master: str, amount: str = "amount") -> None:  # noqa: F811
        super().__init__(root, orders, "filesystem")
        self.sql.write_text(NESTED_SQL.format(input=orders, output=root, amount=amount))
        self.master = master
        self.folder = root / "failpoints"
        self.folder.mkdir()

    def run(self, *extra: str, conf: dict[str, str] | None = None) -> HeadgateProcess:
        settings = {
            "spark.executor.memory": "512m",
            "spark.driver.memory": "1g",
            "spark.executor.heartbeatInterval": "1s",
            # The driver may be slow to answer where many programs share few cores.
            "spark.executor.heartbeat.maxFailures": "40",
            "spark.network.timeout": "8s",
            "spark.network.timeoutInterval": "1s",
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "1s",
            f"spark.executorEnv.{FOLDER_VARIABLE}": str(self.folder),
            **(conf or {}),
        }
        words = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
        return self.start(extra=("--master", self.master, *extra, *words))

    def arm(self, point: str) -> None:
        (self.folder / point).write_text(f"delay:{HOLD_MS}")

    def reached(self, point: str) -> int:
        """Wait until a task is held up there; return the pid of its executor."""
        path = self.folder / f"{point}{REACHED}"
        deadline = time.monotonic() + WAIT_SECONDS
        while not path.exists() or len(path.read_text().splitlines()) < 2:
            assert time.monotonic() < deadline, f"nobody came to {point}"
            time.sleep(0.02)  # a bounded wait for the file
        return executor_of(int(path.read_text().splitlines()[1]))


def executor_of(pid: int) -> int:
    """Return the JVM above a Python worker."""
    above = parents()
    while name_of(pid) != "java":
        pid = above[pid]
    return pid


def assert_finished_without_restart(process: HeadgateProcess) -> None:
    assert process.finish(within_seconds=END_SECONDS) == 0, process.story()
    assert process.states()[-1] == "finished"
    assert "recovering" not in process.states(), process.story()


@pytest.fixture(scope="module")
def nested(expected: set[tuple[Any, ...]], orders: Path) -> set[tuple[Any, ...]]:  # noqa: F811
    """What the nested query makes of all orders: by window."""
    windows: dict[datetime, list[tuple[str | None, int]]] = defaultdict(list)
    for line in orders.read_text().splitlines():
        row = json.loads(line)
        at = datetime.fromisoformat(row["at"])
        windows[START + (at - START) // WIDTH * WIDTH].append((row["shop"], row["amount"]))
    return {
        (
            min(shop for shop, _ in found if shop is not None),
            start,
            len(found),
            sum(amount for _, amount in found),
            min(amount for _, amount in found),
            max(amount for _, amount in found),
            1.0,
        )
        for start, found in windows.items()
    }


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("map", marks=in_soak),
        "task.before_write",
        pytest.param("sink_task.before_write", marks=in_soak),
    ],
)
def test_an_executor_killed_in_the_middle_of_a_stage_changes_nothing(
    tmp_path: Path,
    cluster: SparkCluster,
    orders: Path,  # noqa: F811
    nested: set[tuple[Any, ...]],
    point: str,
) -> None:
    job = Job(tmp_path, orders, cluster.url, amount="held(amount)" if point == "map" else "amount")
    extra: tuple[str, ...] = ()
    if point == "map":
        functions = tmp_path / "functions.py"
        functions.write_text(FUNCTIONS.format(folder=str(job.folder), hold=HOLD_MS / 1000))
        extra = ("--udfs", str(functions))
    process = job.run(*extra)
    process.wait_for("CheckpointNote", 2)
    job.arm(point)
    os.kill(job.reached(point), signal.SIGKILL)
    assert_finished_without_restart(process)
    assert_exact(job, nested)
    notes = process.notes("ExecutorsNote")
    assert [lost for note in notes for lost in note["lost"]], notes


@in_soak
def test_an_executor_frozen_for_longer_than_sparks_patience_changes_nothing(
    tmp_path: Path,
    cluster: SparkCluster,
    orders: Path,  # noqa: F811
    nested: set[tuple[Any, ...]],
) -> None:
    job = Job(tmp_path, orders, cluster.url)
    process = job.run()
    process.wait_for("CheckpointNote", 2)
    job.arm("task.before_write")
    frozen = [executor := job.reached("task.before_write"), *descendants(executor)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        # Its tasks are run elsewhere once Spark has given it up.
        process.wait_for("CheckpointNote", 2)
    finally:
        for pid in frozen:
            # It may have been killed as lost.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert_finished_without_restart(process)
    assert_exact(job, nested)


@in_soak
def test_executors_that_are_decommissioned_and_added_change_nothing(
    tmp_path: Path,
    cluster: SparkCluster,
    orders: Path,  # noqa: F811
    nested: set[tuple[Any, ...]],
) -> None:
    job = Job(tmp_path, orders, cluster.url)
    process = job.run(
        conf={
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": "1",
            "spark.dynamicAllocation.maxExecutors": "3",
            "spark.dynamicAllocation.executorIdleTimeout": "2s",
        }
    )
    process.wait_for("CheckpointNote", 2)
    job.arm("task.before_write")
    # What a cloud provider's notice of reclaiming a machine becomes.
    os.kill(job.reached("task.before_write"), signal.SIGPWR)
    assert_finished_without_restart(process)
    assert_exact(job, nested)


@in_soak
def test_tasks_that_are_tried_twice_beside_a_slow_host_count_once(
    tmp_path: Path,
    cluster: SparkCluster,
    orders: Path,  # noqa: F811
    nested: set[tuple[Any, ...]],
) -> None:
    job = Job(tmp_path, orders, cluster.url)
    process = job.run(
        conf={
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.2",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "10ms",
        }
    )
    process.wait_for("CheckpointNote", 1)
    for point in ("task.before_write", "sink_task.before_write", "task.after_write"):
        job.arm(point)
        job.reached(point)
    assert_finished_without_restart(process)
    assert_exact(job, nested)


def test_a_job_waits_for_cores_that_the_cluster_does_not_have_and_says_so(
    tmp_path: Path,
    orders: Path,  # noqa: F811
    nested: set[tuple[Any, ...]],
) -> None:
    (tmp_path / "cluster").mkdir()
    cluster = SparkCluster(tmp_path / "cluster", workers=0)
    try:
        job = Job(tmp_path, orders, cluster.url)
        process = job.run()
        while not (said := process.wait_for("ProgressMade")["progress"]["waiting_for"]):
            continue
        assert said == "Spark's executors: none yet, 2 cores are wanted"
        cluster.add_worker("127.0.0.1", {})
        assert_finished_without_restart(process)
        assert_exact(job, nested)
    finally:
        cluster.close()


# A driver that has taken all cores, and whose host then falls silent.
FORERUNNER = """
import sys, time
from pyspark.sql import SparkSession

master, name = sys.argv[1:]
builder = SparkSession.builder.master(master).appName(name)
for key, value in {"executor.memory": "512m", "driver.host": "127.0.0.1"}.items():
    builder = builder.config(f"spark.{key}", value)
print(builder.getOrCreate().range(100).repartition(3).count(), flush=True)
time.sleep(600)
"""


def test_cores_of_an_earlier_generation_that_says_nothing_any_more_are_taken_back(
    tmp_path: Path,
    orders: Path,  # noqa: F811
    nested: set[tuple[Any, ...]],
) -> None:
    (tmp_path / "cluster").mkdir()
    cluster = SparkCluster(tmp_path / "cluster", workers=2)
    job = Job(tmp_path, orders, cluster.url)
    earlier = application_name(JobId("totals"), Generation(0), str(tmp_path / "state"))
    command = [sys.executable, "-c", FORERUNNER, cluster.url, earlier]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"100\n"
        silent = [driver.pid, *descendants(driver.pid)]
        for pid in silent:
            os.kill(pid, signal.SIGSTOP)
        process = job.run()
        assert_finished_without_restart(process)
        assert_exact(job, nested)
    finally:
        for pid in [driver.pid, *descendants(driver.pid)]:
            os.kill(pid, signal.SIGKILL)
        driver.wait()
        cluster.close()
