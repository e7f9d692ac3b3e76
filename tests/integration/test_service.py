"""`headgate serve` as a real process: killed, stopped, started again; once with real Spark."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.processes import command_of
from tests.support.services import gone, service
from tests.unit.server.serving import WORKER, is_exact, published, sql

SPARK_SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', message_count = '1000000', event_rate = '1000');
CREATE TABLE evens (counter BIGINT)
WITH (connector = 'single_file', path = '{out}', format = 'json', type = 'sink');
INSERT INTO evens SELECT counter FROM numbers WHERE counter % 2 = 0;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with settings: workers that need no Spark, checkpoints in quick succession."""
    command = json.dumps([sys.executable, str(WORKER)])
    (tmp_path / "headgate.toml").write_text(
        f"state_url = 'state'\n[server]\nport = 0\n[controller]\nworker_command = {command}\n"
        "[job]\nparallelism = 2\ncheckpoint_interval = '100ms'\nheartbeat_interval = '100ms'\n"
    )
    return tmp_path


def test_killed_service_takes_all_its_jobs_up_again(folder: Path) -> None:
    outputs = {name: folder / name for name in ("endless_one", "endless_two")}
    jobs: dict[str, str] = {}
    with service(folder) as first:
        for name, output in outputs.items():
            output.mkdir()
            jobs[name] = first.start(name, sql(output, name))
        for job in jobs.values():
            first.wait(job, lambda view: view["committed_epoch"] >= 2)
        workers = first.workers(str(WORKER))
        assert len(workers) == 2
        first.end(signal.SIGKILL)
    assert gone(workers)
    with service(folder) as second:
        for job in jobs.values():
            view = second.wait(job, lambda v: v["generation"] == 2 and v["state"] == "running")
            epoch = view["committed_epoch"]
            second.wait(job, lambda v, e=epoch: v["committed_epoch"] > e + 1)
            assert second.client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
            assert second.wait(job, lambda v: v["terminal"])["state"] == "stopped"
    for output in outputs.values():
        assert published(output)
        assert is_exact(published(output))


def test_terminated_service_ends_its_streams_and_workers_and_resumes(folder: Path) -> None:
    (folder / "one").mkdir()
    with service(folder) as first:
        job = first.start("endless", sql(folder / "one", "endless"))
        first.wait(job, lambda view: view["committed_epoch"] >= 1)
        workers = first.workers(str(WORKER))
        with first.client.stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            assert first.end(signal.SIGTERM) == 0
    assert gone(workers)
    with service(folder) as second:
        second.wait(job, lambda view: view["generation"] == 2 and view["state"] == "running")
        assert second.client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
        second.wait(job, lambda view: view["terminal"])
    assert is_exact(published(folder / "one"))


def test_sql_runs_on_spark_behind_the_service(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(
        "state_url = 'state'\n[server]\nport = 0\n[job]\nparallelism = 2\n"
        "checkpoint_interval = '500ms'\nmax_batch_rows = 500\n"
    )
    output = tmp_path / "evens.json"
    # Many micro-batches, so that it is far from its end when it is killed.
    text = SPARK_SQL.format(out=output).replace("'1000000', event_rate = '1000'", "'20000'")
    with service(tmp_path) as running:
        job = running.start("evens", text)
        view = running.wait(job, lambda v: v["committed_epoch"] >= 1 or v["terminal"])
        (worker,) = running.workers()
        os.kill(worker, signal.SIGKILL)
        view = running.wait(job, lambda v: v["terminal"])
        assert view["state"] == "finished", view
        assert view["recoveries"] == 1
        (recovery,) = running.get(f"/jobs/{job}/recoveries")
        assert recovery["complete"]
        assert len(recovery["phases"]) == 5
    rows = [json.loads(line)["counter"] for line in output.read_text().splitlines()]
    assert sorted(rows) == list(range(0, 20_000, 2))


def test_warm_spare_takes_over_on_spark_with_exact_output(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(
        "state_url = 'state'\n[server]\nport = 0\n[controller]\nwarm_spares = 1\n"
        "[job]\nparallelism = 2\ncheckpoint_interval = '500ms'\n"
    )
    output = tmp_path / "evens.json"
    spare_logs = tmp_path / "state" / ".local" / "logs" / "_spares"
    with service(tmp_path) as running:
        job = running.start("evens", SPARK_SQL.format(out=output))
        running.wait(job, lambda v: v["committed_epoch"] >= 1 and is_warm(spare_logs))
        (worker,) = [pid for pid in running.workers() if "--job" in command_of(pid)]
        (spare,) = [pid for pid in running.workers() if "--spare" in command_of(pid)]
        os.kill(worker, signal.SIGKILL)
        running.wait(job, lambda v: v["generation"] == 2 and v["state"] == "running")
        log = running.get(f"/jobs/{job}/logs?generation=2&offset=0")["text"]
        assert "spare: spark is ready" in log
        assert command_of(spare)
        epoch = running.get(f"/jobs/{job}")["committed_epoch"]
        running.wait(job, lambda v: v["committed_epoch"] > epoch + 1)
        assert running.client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
        assert running.wait(job, lambda v: v["terminal"])["state"] == "stopped"
    rows = [json.loads(line)["counter"] for line in output.read_text().splitlines()]
    assert sorted(rows) == list(range(0, 2 * len(rows), 2))


def is_warm(logs: Path) -> bool:
    return any("spark is ready" in log.read_text() for log in logs.glob("*.log"))
