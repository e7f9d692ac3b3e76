"""Previews of a real service on real Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.cli import run_cli
from tests.support.processes import descendants
from tests.support.services import PATIENCE_SECONDS, ServiceProcess, gone, service
from tests.support.waiting import eventually

ENDLESS = """CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', event_rate = '100');
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "headgate.toml").write_text("state_url = 'state'\n[server]\nport = 0\n")
    with service(folder) as started:
        yield started


def ask(running: ServiceProcess, text: str, **more: Any) -> str:
    answer = running.client.post("/api/v1/pipelines/preview", json={"sql": text, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def done(running: ServiceProcess, preview: str) -> dict[str, Any]:
    assert eventually(lambda: running.get(f"/previews/{preview}")["done"], PATIENCE_SECONDS)
    return dict(running.get(f"/previews/{preview}"))


def sparks(running: ServiceProcess) -> list[int]:
    """Return the processes with Spark that the service has started."""
    found = []
    for pid in descendants(running.process.pid):
        try:
            if "headgate.warm" in psutil.Process(pid).cmdline():
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    # What forks the Python workers has the same command.
    return [pid for pid in found if psutil.Process(pid).ppid() == running.process.pid]


def test_rows_come_without_a_job_and_the_next_preview_uses_the_same_spark(
    running: ServiceProcess, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    text = ENDLESS + (
        "CREATE TABLE kept (counter BIGINT) WITH (connector = 'filesystem',"
        f" path = '{out}', format = 'json', type = 'sink');"
        "INSERT INTO kept SELECT counter FROM numbers;"
    )
    shown = done(running, ask(running, text, rows_max=20))
    assert shown["state"] == "stopped", shown
    assert sorted(row["counter"] for row in shown["rows"]) == list(range(20))
    assert not out.exists()
    assert running.get("/jobs") == []
    (spark,) = sparks(running)
    counted = "SELECT counter % 3 AS n, count(*) AS many FROM numbers GROUP BY counter % 3;"
    shown = done(running, ask(running, ENDLESS + counted, rows_max=3))
    assert {row["after"]["n"] for row in shown["rows"]} <= {0, 1, 2}
    assert shown["rows_read"] > 0
    assert sparks(running) == [spark]


def test_functions_and_a_file_that_ends(running: ServiceProcess, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text('{"n": 1}\n{"n": 2}\nno row\n')
    text = f"""CREATE TABLE numbers (n BIGINT) WITH (connector = 'single_file',
    path = '{source}', format = 'json', type = 'source', bad_data = 'drop');
    SELECT twice(n) AS n FROM numbers;"""
    functions = "from headgate import udf\n@udf\ndef twice(n: int) -> int:\n    return n * 2\n"
    shown = done(running, ask(running, text, udf_source=functions))
    assert (shown["state"], shown["error"]) == ("finished", None)
    assert shown["rows"] == [{"n": 2}, {"n": 4}]
    assert shown["bad_rows"] == 1
    assert "no row" in shown["bad_sample"]


REFUSED = """CREATE TABLE rows (tags TEXT[], n BIGINT) WITH (
  connector = 'single_file', path = '{folder}/rows.json', format = 'json', type = 'source'
);
CREATE TABLE out (text TEXT) WITH (
  connector = 'single_file', path = '{folder}/out.json', format = 'json', type = 'sink'
);
INSERT INTO out SELECT concat(substring(tags, 1, 2), 'x') AS text FROM rows;
"""
PLACE = " --> line 7, column 31"


def test_what_only_spark_refuses_has_a_place_in_previews_and_in_jobs(
    running: ServiceProcess, tmp_path: Path
) -> None:
    (tmp_path / "rows.json").write_text('{"tags": ["a"], "n": 5}\n')
    text = REFUSED.format(folder=tmp_path)
    shown = done(running, ask(running, text))
    assert shown["state"] == "failed"
    assert PLACE in shown["place"]["rendered"]
    job = running.start("refused", text)
    view = running.wait(job, lambda v: v["terminal"])
    assert (view["state"], view["error_place"]["line"]) == ("failed", 7)
    told = run_cli("jobs", "show", job, "--url", running.url)
    assert PLACE in told.stdout
    assert running.client.delete(f"/api/v1/jobs/{job}").status_code == 204


def test_killed_process_fails_its_preview_only(running: ServiceProcess) -> None:
    preview = ask(running, ENDLESS + "SELECT counter FROM numbers;", rows_max=10_000)
    assert eventually(lambda: running.get(f"/previews/{preview}")["rows"], PATIENCE_SECONDS)
    (spark,) = sparks(running)
    below = descendants(spark)
    os.kill(spark, signal.SIGKILL)
    shown = done(running, preview)
    assert shown["state"] == "failed"
    assert "was killed by signal 9" in shown["error"]["message"]
    assert gone(below)
    again = done(running, ask(running, ENDLESS + "SELECT counter FROM numbers;", rows_max=1))
    assert again["rows"] == [{"counter": 0}]


def test_service_that_is_killed_leaves_no_spark(running: ServiceProcess) -> None:
    ask(running, ENDLESS + "SELECT counter FROM numbers;", rows_max=10_000)
    assert eventually(lambda: bool(sparks(running)))
    below = descendants(running.process.pid)
    running.end(signal.SIGKILL)
    assert gone(below)
