"""Several `headgate serve` on one real Postgres: they die, sleep, are cut off, and take over."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.cable import cable
from tests.support.needed import need_postgres
from tests.support.postgres import PostgresServer, create_database, postgres_server
from tests.support.services import PATIENCE_SECONDS, ServiceProcess, gone, service
from tests.support.waiting import eventually
from tests.unit.server.serving import WORKER, is_exact, published, sql

TTL_SECONDS = 6


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    need_postgres()
    with postgres_server() as server:
        yield server


@pytest.fixture
def database(request: pytest.FixtureRequest, postgres: PostgresServer) -> str:
    """A database of the test's own."""
    return create_database(postgres.url, request.node.nodeid)


class Site:
    """A shared state folder and database; every controller has a folder of its own."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.database = database
        # Workers that need no Spark, checkpoints in quick succession.
        self.worker = json.dumps([sys.executable, str(WORKER)])
        self.job = "parallelism = 2\ncheckpoint_interval = '100ms'\nheartbeat_interval = '100ms'\n"

    def prepare(self, name: str, database: str | None = None) -> Path:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        command = f"worker_command = {self.worker}\n" if self.worker else ""
        (home / "headgate.toml").write_text(
            f"state_url = '{self.folder / 'state'}'\n[server]\nport = 0\n[controller]\n"
            f"database_url = '{database or self.database}'\ndata_dir = '{home / 'data'}'\n"
            f"lease_ttl = '{TTL_SECONDS}s'\n{command}[job]\n{self.job}"
        )
        return home

    @contextlib.contextmanager
    def controller(self, name: str, database: str | None = None) -> Iterator[ServiceProcess]:
        with service(self.prepare(name, database)) as running:
            yield running

    def start_job(self, running: ServiceProcess, name: str) -> str:
        """Start a job that never ends by itself; its output is in the folder of its name."""
        (self.folder / name).mkdir()
        job = running.start(name, sql(self.folder / name, f"endless_{name}"))
        running.wait(job, lambda view: view["committed_epoch"] >= 2)
        return job

    def output(self, name: str) -> list[tuple[int, int]]:
        return published(self.folder / name)


@pytest.fixture
def site(tmp_path: Path, database: str) -> Site:
    return Site(tmp_path, database)


def grows(running: ServiceProcess, job: str) -> dict[str, Any]:
    """Wait until the job has committed two more epochs, wherever it is driven."""
    epoch = running.get(f"/jobs/{job}")["committed_epoch"]
    return running.wait(job, lambda view: view["committed_epoch"] > epoch + 1)


def taken_over(view: dict[str, Any]) -> bool:
    return view["driven_here"] and view["state"] == "running" and view["generation"] >= 2


def stop(running: ServiceProcess, job: str) -> None:
    assert running.client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
    assert running.wait(job, lambda view: view["terminal"])["state"] == "stopped"


def silent_ms(running: ServiceProcess) -> int:
    return int(running.client.get("/healthz").json()["silent_ms"])


def until(condition: Callable[[], bool]) -> None:
    assert eventually(condition, PATIENCE_SECONDS)


# ---- a controller goes -----------------------------------------------------------------------


def test_jobs_of_a_killed_controller_are_taken_over_by_the_other(site: Site) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        jobs = {name: site.start_job(first, name) for name in ("one", "two")}
        workers = first.workers(str(WORKER))
        assert len(workers) == 2
        assert second.get(f"/jobs/{jobs['one']}")["driven_by"] == first.url
        first.end(signal.SIGKILL)
        for job in jobs.values():
            second.wait(job, taken_over)
            grows(second, job)
        assert gone(workers)
        until(lambda: {c["url"]: c["silent"] for c in second.get("/controllers")}[first.url])
        assert {c["url"]: c["jobs"] for c in second.get("/controllers")} == {
            first.url: 0,
            second.url: 2,
        }
        for job in jobs.values():
            stop(second, job)
    for name in jobs:
        assert is_exact(site.output(name))


def test_controller_of_another_process_table_is_replaced_when_its_lease_runs_out(
    site: Site,
) -> None:
    """As on two machines, or in two containers with one host name: nobody sees the other die."""
    if os.geteuid() != 0:
        pytest.skip("a process table of its own needs root")
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with service(site.prepare("a"), apart) as first, site.controller("b") as second:
        job = site.start_job(first, "one")
        # They have numbers of their own: the other must not take its processes for dead.
        epoch = grows(second, job)
        assert (epoch["generation"], epoch["driven_by"]) == (1, first.url)
        first.end(signal.SIGKILL)
        refused = second.client.post(f"/api/v1/jobs/{job}/stop")
        assert refused.status_code in (421, 503), "its lease has not yet run out"
        second.wait(job, taken_over)
        grows(second, job)
        stop(second, job)
    assert is_exact(site.output("one"))


def test_controller_that_slept_longer_than_its_lease_lets_go(site: Site) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        job = site.start_job(first, "one")
        workers = first.workers(str(WORKER))
        first.process.send_signal(signal.SIGSTOP)
        # Before its lease has run out, it is said that it does not answer.
        answers: set[tuple[int, str]] = set()

        def is_driven_here() -> bool:
            answer = second.client.post(f"/api/v1/jobs/{job}/checkpoints")
            code = answer.json().get("code", "")
            answers.add((answer.status_code, code))
            if code == "controller_silent":
                assert int(answer.headers["Retry-After"]) >= 1
            return bool(second.get(f"/jobs/{job}")["driven_here"])

        until(is_driven_here)
        assert answers & {(421, "job_leased"), (503, "controller_silent")}
        second.wait(job, taken_over)
        grows(second, job)
        first.process.send_signal(signal.SIGCONT)
        first.wait(job, lambda view: view["driven_by"] == second.url)
        assert gone(workers)
        grows(second, job)
        assert not first.workers(str(WORKER))
        # It is a healthy member again: what the other loses comes back to it.
        second.end(signal.SIGTERM)
        first.wait(job, lambda view: taken_over(view) and view["generation"] >= 3)
        grows(first, job)
        stop(first, job)
    assert is_exact(site.output("one"))


def test_controller_that_ends_in_good_order_hands_its_jobs_over_at_once(site: Site) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        job = site.start_job(first, "one")
        assert first.end(signal.SIGTERM) == 0
        assert [c["url"] for c in second.get("/controllers")] == [second.url]
        second.wait(job, taken_over)
        stop(second, job)
    assert is_exact(site.output("one"))


# ---- the database goes -----------------------------------------------------------------------


def test_restart_of_the_database_moves_no_job(site: Site, postgres: PostgresServer) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        jobs = {"one": site.start_job(first, "one"), "two": site.start_job(second, "two")}
        workers = [*first.workers(str(WORKER)), *second.workers(str(WORKER))]
        postgres.kill()
        try:
            for running in (first, second):
                until(lambda r=running: r.client.get("/api/v1/jobs").status_code == 503)
                assert running.client.get("/healthz").status_code == 200
        finally:
            postgres.start()
        for running, job in zip((first, second), jobs.values(), strict=True):
            until(lambda r=running: r.client.get("/api/v1/jobs").status_code == 200)
            view = grows(running, job)
            assert (view["driven_here"], view["generation"]) == (True, 1)
        assert sorted([*first.workers(str(WORKER)), *second.workers(str(WORKER))]) == sorted(
            workers
        )
        for running, job in zip((first, second), jobs.values(), strict=True):
            stop(running, job)
    for name in jobs:
        assert is_exact(site.output(name))


def test_database_frozen_for_longer_than_the_leases_moves_no_job(
    site: Site, postgres: PostgresServer
) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        jobs = {"one": site.start_job(first, "one"), "two": site.start_job(second, "two")}
        postgres.freeze()
        try:
            for running in (first, second):
                until(lambda r=running: silent_ms(r) > 2_000 * TTL_SECONDS)
                # Nobody waits for it without end.
                assert running.client.get("/api/v1/jobs").status_code == 503
                assert len(running.workers(str(WORKER))) == 1
        finally:
            postgres.thaw()
        for running, job in zip((first, second), jobs.values(), strict=True):
            until(lambda r=running: r.client.get("/api/v1/jobs").status_code == 200)
            view = grows(running, job)
            assert (view["driven_here"], view["generation"]) == (True, 1)
            stop(running, job)
    for name in jobs:
        assert is_exact(site.output(name))


def test_controller_cut_off_from_the_database_learns_from_the_fence_that_it_is_replaced(
    site: Site,
) -> None:
    url = sa.make_url(site.database)
    assert url.host is not None
    assert url.port is not None
    with cable((url.host, url.port)) as wire:
        through = url.set(port=wire.port).render_as_string(hide_password=False)
        with site.controller("a", through) as first, site.controller("b") as second:
            job = site.start_job(first, "one")
            workers = first.workers(str(WORKER))
            wire.cut()
            second.wait(job, taken_over)
            # It still hears nothing of the database, and yet it ends its worker.
            assert gone(workers)
            assert silent_ms(first) > 1_000 * TTL_SECONDS
            grows(second, job)
            wire.mend()
            until(lambda: first.client.get("/api/v1/jobs").status_code == 200)
            first.wait(job, lambda view: view["driven_by"] == second.url)
            assert not first.workers(str(WORKER))
            grows(second, job)
            stop(second, job)
    assert is_exact(site.output("one"))


# ---- commands --------------------------------------------------------------------------------


def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
    return subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=environment,
        check=False,
    )


def test_command_to_the_wrong_controller_is_answered_with_where_to_go(site: Site) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        job = site.start_job(first, "one")
        for path, body in (
            ("stop", None),
            ("restart", {"parallelism": 3, "max_batch_rows": 7}),
            ("rescale", {"parallelism": 3}),
            ("checkpoints", None),
            ("savepoints", {"name": "s"}),
        ):
            answer = second.client.post(f"/api/v1/jobs/{job}/{path}", json=body)
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (421, "job_leased")
            assert problem["controller"] == first.url
            assert first.url in problem["detail"]
            assert answer.headers["Location"] == f"{first.url}/api/v1/jobs/{job}/{path}"
        # What was refused has changed nothing.
        view = second.get(f"/jobs/{job}")
        assert (view["state"], view["parallelism"], view["generation"]) == ("running", 2, 1)
        assert view["max_batch_rows"] == first.get(f"/jobs/{job}")["max_batch_rows"] != 7
        for path in ("logs", "metrics", "events"):
            answer = second.client.get(f"/api/v1/jobs/{job}/{path}")
            assert (answer.status_code, answer.json()["controller"]) == (421, first.url)
        # What is stored is shown everywhere, and so is what the worker said a moment ago.
        assert second.get(f"/jobs/{job}/history")
        assert second.get(f"/jobs/{job}/checkpoints")
        view = second.wait(job, lambda view: view["progress"] is not None)
        assert view["progress"]["rows_in"] > 0
        assert (view["driven_here"], view["driven_by"]) == (False, first.url)
        assert not any(job in line for line in _progress_lines(second))


def _progress_lines(running: ServiceProcess) -> list[str]:
    lines = running.client.get("/metrics").text.splitlines()
    return [line for line in lines if line.startswith("headgate_job_rows_in_total")]


def test_command_line_follows_to_the_controller_that_drives_the_job(site: Site) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        job = site.start_job(first, "one")
        listed = headgate("controllers", "--url", second.url)
        assert first.url in listed.stdout, listed.stderr
        shown = headgate("jobs", "show", job, "--url", second.url)
        assert first.url in shown.stdout, shown.stderr
        # The first of the two does not answer, the second one is not the one to ask.
        nobody = "http://127.0.0.1:9"
        stopped = headgate("stop", job, "--url", f"{nobody},{second.url}")
        assert stopped.returncode == 0, stopped.stderr
        assert f"ask {first.url}: asking there" in stopped.stderr
        assert "is stopped" in stopped.stdout
        # Nobody drives it now: whoever is asked takes it up.
        until(lambda: first.get(f"/jobs/{job}")["driven_by"] is None)
        restarted = headgate("restart", job, "--url", second.url)
        assert restarted.returncode == 0, restarted.stderr
        assert second.get(f"/jobs/{job}")["driven_here"]
        grows(first, job)
        stop(second, job)
    assert is_exact(site.output("one"))


def test_job_is_created_once_whoever_is_asked(site: Site) -> None:
    with site.controller("a") as first, site.controller("b") as second:
        (site.folder / "one").mkdir()
        body = {"pipeline": "one", "sql": sql(site.folder / "one", "endless_one"), "id": "one"}
        codes = Counter(
            running.client.post("/api/v1/jobs", json=body).status_code
            for running in (first, second, first, second)
        )
        assert codes == {201: 1, 409: 3}
        first.wait("one", lambda view: view["committed_epoch"] >= 1)
        stop(first, "one")


# ---- with Spark ------------------------------------------------------------------------------

SPARK_SQL = """
CREATE TABLE orders (
  shop TEXT, amount BIGINT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = '{source}', format = 'json', type = 'source');
CREATE TABLE totals (shop TEXT, started TIMESTAMP, orders BIGINT, total BIGINT)
WITH (connector = 'single_file', path = '{out}', format = 'json', type = 'sink');
INSERT INTO totals
SELECT shop, window.start, orders, total FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders, sum(amount) AS total
  FROM orders GROUP BY shop, window
);
"""
ROWS = 12_000


def write_orders(path: Path) -> Counter[tuple[str, int]]:
    """Write the source, and return the total of each shop and window of ten seconds."""
    totals: Counter[tuple[str, int]] = Counter()
    with path.open("w") as file:
        for n in range(ROWS):
            second = n // 20
            moment = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
            shop = f"shop-{n % 7}"
            file.write(json.dumps({"shop": shop, "amount": n, "at": moment}) + "\n")
            totals[shop, second // 10] += n
    return totals


def test_windows_of_a_killed_controller_go_on_at_the_other_on_spark(site: Site) -> None:
    site.worker = ""
    site.job = "parallelism = 2\ncheckpoint_interval = '500ms'\nmax_batch_rows = 300\n"
    expected = write_orders(site.folder / "orders.json")
    output = site.folder / "totals.json"
    with site.controller("a") as first, site.controller("b") as second:
        text = SPARK_SQL.format(source=site.folder / "orders.json", out=output)
        job = first.start("totals", text)
        first.wait(job, lambda view: view["committed_epoch"] >= 2 or view["terminal"])
        workers = first.workers()
        first.end(signal.SIGKILL)
        view = second.wait(job, lambda view: view["terminal"])
        assert (view["state"], view["generation"]) == ("finished", 2), view
        assert gone(workers)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == len(expected)
    found = Counter({(row["shop"], _window(row["started"])): row["total"] for row in rows})
    assert found == expected


def _window(started: str) -> int:
    hours, minutes, seconds = started[11:19].split(":")
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) // 10
