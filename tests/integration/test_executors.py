"""Executors that lack something: on a real cluster, with Workers that have another Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import headgate
from tests.integration.test_exactly_once import (  # noqa: F401 - fixtures
    Slice,
    assert_exact,
    expected,
    orders,
)
from tests.support.cli import HeadgateProcess, run_cli
from tests.support.needed import in_soak
from tests.support.spark_cluster import SparkCluster

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
GOOD, BARE, STALE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
SPARK = (
    *("--set", "spark.executor.memory=512m", "--set", "spark.driver.memory=1g"),
    *("--set", f"spark.pyspark.python={PYTHON}"),
)
# Jobs here take every host, whatever their parallelism.
ALL_CORES = ("--set", "spark.cores.max=99")


def own_python() -> dict[str, str | None]:
    """Return the environment of a Worker whose Python is the one of this test."""
    folder = str(Path(sys.executable).parent)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": search_path()}


def search_path() -> str:
    return str(Path(headgate.__file__).parents[1])


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Return the environment of a Worker whose Python has nothing but its standard library."""
    root = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    return {"PATH": f"{root}/bin:/usr/bin:/bin", "PYTHONPATH": None}


@pytest.fixture(scope="module")
def stale_python(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Return the environment of a Worker with another copy of Headgate."""
    root = tmp_path_factory.mktemp("stale")
    shutil.copytree(Path(headgate.__file__).parent, root / "headgate")
    with (root / "headgate" / "udf.py").open("a") as file:
        file.write("# as it was last week\n")
    return own_python() | {"PYTHONPATH": str(root)}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("package") / "headgate.tar.gz"
    made = run_cli("package", "-o", str(file), "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["bytes"] == file.stat().st_size
    return file


class Cluster(SparkCluster):
    """Workers are added by the tests."""

    def __init__(self, root: Path, **workers: Mapping[str, str | None]) -> None:
        root.mkdir()
        super().__init__(root, workers=0)
        for host, environment in workers.items():
            self.add_worker(host, environment)


@pytest.fixture(scope="module")
def mixed(
    tmp_path_factory: pytest.TempPathFactory,
    bare_python: Mapping[str, str | None],
    stale_python: Mapping[str, str | None],
) -> Iterator[SparkCluster]:
    """One Worker that fits, one without anything, one with another Headgate."""
    workers = {GOOD: own_python(), BARE: bare_python, STALE: stale_python}
    running = Cluster(tmp_path_factory.mktemp("mixed") / "cluster", **workers)
    yield running
    running.close()


def test_a_job_does_not_start_and_says_what_every_host_lacks(
    tmp_path: Path,
    mixed: SparkCluster,
    orders: Path,  # noqa: F811
) -> None:
    job = Slice(tmp_path, orders, "filesystem")
    process = job.start(parallelism=3, extra=("--master", mixed.url, *SPARK, *ALL_CORES))
    assert process.finish() == 1, process.story()
    assert process.states()[-1] == "failed"
    # It is not tried again: a person has to act.
    assert "recovering" not in process.states()
    told = process.story()
    assert "(2 of 3)" in told
    assert f"{BARE} (executor" in told
    assert "Headgate is missing" in told
    assert "pyarrow is missing (the driver has" in told
    assert f"{STALE} (executor" in told
    assert "is another one" in told
    assert "`headgate package`" in told
    assert f"{GOOD} (executor" not in told


def test_check_shows_every_host_and_fails_if_one_does_not_fit(mixed: SparkCluster) -> None:
    found = run_cli("check", "--master", mixed.url, "--cores", "3", *SPARK, "--json")
    assert found.returncode == 1, found.stderr
    hosts = {each["executor"]["host"]: each for each in json.loads(found.stdout)}
    assert {host: each["fits"] for host, each in hosts.items()} == {
        GOOD: True,
        BARE: False,
        STALE: False,
    }
    assert "headgate" in {finding["what"] for finding in hosts[BARE]["findings"]}
    assert {finding["what"] for finding in hosts[STALE]["findings"]} == {"headgate"}


def test_with_a_package_bare_hosts_fit_and_the_output_is_exact(
    tmp_path: Path,
    mixed: SparkCluster,
    package: Path,
    orders: Path,  # noqa: F811
    expected: set[tuple[Any, ...]],  # noqa: F811
) -> None:
    shown = run_cli(
        *("check", "--master", mixed.url, "--cores", "3", "--package", str(package)),
        *SPARK,
        *ALL_CORES,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "✗" not in shown.stdout
    job = Slice(tmp_path, orders, "filesystem")
    process = job.start(
        parallelism=3, extra=("--master", mixed.url, "--package", str(package), *SPARK, *ALL_CORES)
    )
    assert process.finish() == 0, process.story()
    assert_exact(job, expected)
    (joined,) = [note["joined"] for note in process.notes("ExecutorsNote")]
    assert {executor["host"] for executor in joined} == {GOOD, BARE, STALE}


CODE_SQL = """
CREATE TABLE numbers (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) WITH (
  connector = 'single_file', path = '{root}/numbers.json', format = 'json', type = 'source');
CREATE TABLE counted (id BIGINT, seen BIGINT) WITH (
  process = '{root}/counting.py:Counting', input = numbers, keys = [id]);
CREATE TABLE results (id BIGINT, seen BIGINT) WITH (
  connector = 'single_file', path = '{root}/results.json', format = 'json', type = 'sink');
INSERT INTO results SELECT id, tenfold(seen) FROM counted;
"""
COUNTING = """
import pyarrow as pa
from headgate.process import ProcessOperator

class Counting(ProcessOperator):
    state_schema = pa.schema([("seen", pa.int64())])

    def process(self, rows, context):
        return rows.group_by("id").aggregate([([], "count_all")]).rename_columns(["id", "seen"])
"""
TENFOLD = "@udf\ndef tenfold(x: int) -> int:\n    return x * 10\n"


@in_soak
def test_user_code_travels_with_the_job_and_is_read_by_no_executor(
    tmp_path: Path, mixed: SparkCluster, package: Path
) -> None:
    rows = [{"id": n % 5, "at": "2024-03-01T00:00:00Z"} for n in range(50)]
    (tmp_path / "numbers.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, functions = tmp_path / "counting.py", tmp_path / "functions.py"
    code.write_text(COUNTING)
    functions.write_text(TENFOLD)
    sql = tmp_path / "code.sql"
    sql.write_text(CODE_SQL.format(root=tmp_path))
    process = HeadgateProcess(
        *("run", str(sql), "--udfs", str(functions), "--state-dir", str(tmp_path / "state")),
        *(
            "--parallelism",
            "3",
            "--master",
            mixed.url,
            "--package",
            str(package),
            *SPARK,
            *ALL_CORES,
        ),
    )
    # The job exists, and no worker does yet.
    process.wait_for("StateChanged", after="scheduling")
    code.unlink()
    functions.unlink()
    assert process.finish() == 0, process.story()
    lines = (tmp_path / "results.json").read_text().splitlines()
    found = sorted((row["id"], row["seen"]) for row in map(json.loads, lines))
    assert found == [(n, 100) for n in range(5)]


def test_an_executor_that_joins_later_is_compared_and_sent_away(
    tmp_path: Path,
    bare_python: Mapping[str, str | None],
    orders: Path,  # noqa: F811
    expected: set[tuple[Any, ...]],  # noqa: F811
) -> None:
    cluster = Cluster(tmp_path / "cluster", **{GOOD: own_python()})
    try:
        job = Slice(tmp_path, orders, "filesystem")
        process = job.start(
            parallelism=1,
            extra=("--master", cluster.url, "--max-batch-rows", "2000", *SPARK, *ALL_CORES),
        )
        process.wait_for("CheckpointNote", 1)
        cluster.add_worker(BARE, bare_python)
        process.wait_for("ExecutorsNote")
        cluster.add_worker(STALE, own_python())
        assert process.finish() == 0, process.story()
    finally:
        cluster.close()
    assert_exact(job, expected)
    first, second, *_ = process.notes("ExecutorsNote")
    assert [executor["host"] for executor in first["joined"]] == [GOOD]
    (refused,) = second["refused"]
    assert refused["executor"]["host"] == BARE
    assert any("Headgate is missing" in finding for finding in refused["findings"])
    assert second["executors"] == 1
