"""A service and nodes as real processes on loopback: killed, frozen, cut off, restarted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import write_certificates
from tests.support.node_process import NodeProcess, ServeProcess
from tests.support.ports import free_port
from tests.support.relay import Relay
from tests.support.waiting import eventually
from tests.support.worker import WORKER
from tests.unit.server.serving import is_exact, published, sql

TOKEN = "correct horse battery staple"
TIMEOUT_SECONDS = 3


class Place:
    """A folder with a service's settings, and the processes that were started in it."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        command = json.dumps([sys.executable, str(WORKER)])
        (folder / "headgate.toml").write_text(
            "state_url = 'state'\n"
            f"[controller]\nworker_command = {command}\nnode_timeout = '{TIMEOUT_SECONDS}s'\n"
            "[job]\nparallelism = 2\ncheckpoint_interval = '100ms'\nheartbeat_interval = '100ms'\n"
        )

    def serve(self, *arguments: str, **options: Any) -> ServeProcess:
        running = ServeProcess(self.folder, *arguments, **options)
        self._stack.callback(running.close)
        return running

    def node(self, name: str, *urls: str, shares: bool = True, **options: Any) -> NodeProcess:
        flags = (*options.pop("arguments", ()), *(("--shares", "/") if shares else ()))
        running = NodeProcess(self.folder, name, *urls, arguments=flags, **options)
        self._stack.callback(running.close)
        return running

    def relay(self, port: int) -> Relay:
        relay = Relay(("127.0.0.1", port))
        self._stack.callback(relay.close)
        return relay

    def text(self, name: str = "endless") -> str:
        output = self.folder / name
        output.mkdir(exist_ok=True)
        return sql(output, name)

    def is_exact(self, name: str = "endless") -> bool:
        ranges = published(self.folder / name)
        return bool(ranges) and is_exact(ranges)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with contextlib.ExitStack() as stack:
        yield Place(tmp_path, stack)


def gone(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.quick
def test_job_runs_on_the_freer_node_and_goes_on_on_the_other_when_it_is_killed(
    place: Place,
) -> None:
    service = place.serve()
    nodes = {"a": place.node("a", service.url, slots=2), "b": place.node("b", service.url, slots=4)}
    for name in nodes:
        service.wait_for_node(name)
    job = service.start("endless", place.text())
    view = service.wait(job, lambda v: v["committed_epoch"] >= 2)
    assert view["node"] == "b"
    assert service.nodes()["b"]["slots_free"] == 2
    assert service.nodes()["b"]["workers"] == [{"job": job, "generation": 1, "slots": 2}]
    assert service.workers() == []
    (worker,) = nodes["b"].workers()
    nodes["b"].end(signal.SIGKILL)
    assert eventually(gone([worker]))
    view = service.wait(job, lambda v: v["generation"] == 2 and v["state"] == "running")
    assert view["node"] == "a"
    service.goes_on(job)
    service.stop(job)
    assert place.is_exact()
    reasons = [
        e["transition"]["reason"]
        for e in service.get(f"/jobs/{job}/history")
        if e["kind"] == "transition"
    ]
    assert f"node b was lost (no word for {TIMEOUT_SECONDS} s)" in reasons
    assert "worker ready on node b" in reasons
    assert "worker ready on node a" in reasons
    assert service.nodes()["b"]["state"] == "lost"


def test_frozen_node_ends_its_workers_when_it_wakes_and_joins_again(place: Place) -> None:
    service = place.serve()
    nodes = {"a": place.node("a", service.url, slots=2), "b": place.node("b", service.url, slots=4)}
    for name in nodes:
        service.wait_for_node(name)
    job = service.start("endless", place.text())
    service.wait(job, lambda v: v["committed_epoch"] >= 2 and v["node"] == "b")
    workers = nodes["b"].workers()
    nodes["b"].send(signal.SIGSTOP)
    service.wait(job, lambda v: v["generation"] == 2 and v["state"] == "running")
    service.goes_on(job)
    # Only its node is frozen: the worker itself lives on, and can do no harm.
    assert len(workers) == 1
    assert not gone(workers)()
    nodes["b"].send(signal.SIGCONT)
    assert eventually(gone(workers)), nodes["b"].log()
    view = service.wait_for_node("b")
    assert view["workers"] == []
    service.goes_on(job)
    assert service.get(f"/jobs/{job}")["generation"] == 2
    service.stop(job)
    assert place.is_exact()


def test_short_cut_of_the_connection_is_not_noticed_by_the_job(place: Place) -> None:
    service = place.serve()
    relay = place.relay(service.port)
    node = place.node("a", relay.url)
    service.wait_for_node("a")
    job = service.start("endless", place.text())
    service.wait(job, lambda v: v["committed_epoch"] >= 2 and v["node"] == "a")
    for _ in range(3):
        before = relay.connections
        relay.cut()
        service.wait_for_node("a", "reconnecting")
        relay.mend()
        service.wait_for_node("a")
        assert relay.connections == before + 1
        service.goes_on(job)
    view = service.get(f"/jobs/{job}")
    assert (view["generation"], view["recoveries"]) == (1, 0)
    assert len(node.workers()) == 1
    service.stop(job)
    assert place.is_exact()


def test_long_cut_moves_the_job_and_the_node_ends_its_workers_by_itself(place: Place) -> None:
    service = place.serve()
    relay = place.relay(service.port)
    cut_off = place.node("a", relay.url, slots=8)
    service.wait_for_node("a")
    place.node("b", service.url, slots=2)
    service.wait_for_node("b")
    job = service.start("endless", place.text())
    service.wait(job, lambda v: v["committed_epoch"] >= 2 and v["node"] == "a")
    workers = cut_off.workers()
    relay.cut()
    assert eventually(gone(workers)), cut_off.log()
    service.wait(job, lambda v: v["node"] == "b" and v["state"] == "running")
    relay.mend()
    service.wait_for_node("a")
    service.goes_on(job)
    service.stop(job)
    assert place.is_exact()


def test_restarted_service_has_its_jobs_on_nodes_again(place: Place) -> None:
    port = free_port()
    first = place.serve(port=port)
    node = place.node("a", first.url)
    first.wait_for_node("a")
    job = first.start("endless", place.text())
    first.wait(job, lambda v: v["committed_epoch"] >= 2 and v["node"] == "a")
    workers = node.workers()
    first.end(signal.SIGKILL)
    second = place.serve(port=port)
    assert eventually(gone(workers)), node.log()
    second.wait(job, lambda v: v["state"] == "running" and v["node"] == "a")
    assert second.workers() == []
    second.goes_on(job)
    # Stopped in good order it leaves nothing behind, and nothing of it is a failure of the job.
    workers = node.workers()
    assert second.end(signal.SIGTERM) == 0
    assert eventually(gone(workers)), node.log()
    third = place.serve(port=port)
    third.wait(job, lambda v: v["state"] == "running" and v["node"] == "a")
    reasons = [
        e["transition"]["reason"]
        for e in third.get(f"/jobs/{job}/history")
        if e["kind"] == "transition"
    ]
    assert not any("lost" in reason or "exit code" in reason for reason in reasons), reasons
    third.stop(job)
    assert place.is_exact()


def test_stopped_node_says_goodbye_and_its_jobs_go_on_at_once(place: Place) -> None:
    service = place.serve()
    leaving = place.node("a", service.url, slots=4)
    place.node("b", service.url, slots=2)
    for name in ("a", "b"):
        service.wait_for_node(name)
    job = service.start("endless", place.text())
    service.wait(job, lambda v: v["committed_epoch"] >= 2 and v["node"] == "a")
    workers = leaving.workers()
    assert leaving.end(signal.SIGTERM) == 0
    assert gone(workers)()
    service.wait(job, lambda v: v["state"] == "running" and v["node"] == "b")
    assert "a" not in service.nodes()
    service.goes_on(job)
    service.stop(job)
    assert place.is_exact()
    assert list((leaving.data).glob("*/scratch/*/*")) == []


def test_job_that_does_not_fit_waits_and_says_what_for(place: Place) -> None:
    service = place.serve()
    place.node("a", service.url, slots=3)
    service.wait_for_node("a")
    first = service.start("endless_one", place.text("endless_one"))
    service.wait(first, lambda v: v["committed_epoch"] >= 1)
    second = service.start("endless_two", place.text("endless_two"))
    view = service.wait(second, lambda v: "needs" in v["doing"])
    assert view["doing"] == "needs 2 slots; node a has 1 of 3 free"
    service.stop(first)
    service.wait(second, lambda v: v["committed_epoch"] >= 1)
    service.stop(second)
    assert place.is_exact("endless_one")
    assert place.is_exact("endless_two")


def test_log_of_a_worker_comes_from_its_node(place: Place) -> None:
    service = place.serve()
    node = place.node("a", service.url)
    service.wait_for_node("a")
    job = service.start("endless", place.text())
    service.wait(job, lambda v: v["committed_epoch"] >= 1)
    (log,) = node.data.glob(f"*/logs/{job}/worker-1.log")
    with log.open("a") as file:
        file.write("written on the node\n")
    page = service.get(f"/jobs/{job}/logs")
    assert page["text"].endswith("written on the node\n")
    assert page["generations"] == [1]
    assert not (place.folder / "state" / ".local" / "logs" / job).exists()
    service.stop(job)


def test_state_in_a_folder_is_not_placed_on_a_node_that_does_not_share_it(place: Place) -> None:
    toml = place.folder / "headgate.toml"
    toml.write_text(toml.read_text().replace("[controller]", "[controller]\nworkers = 'nodes'"))
    service = place.serve()
    place.node("a", service.url, shares=False)
    service.wait_for_node("a")
    job = service.start("endless", place.text())
    view = service.wait(job, lambda v: v["terminal"])
    assert view["state"] == "failed"
    assert view["error"]["code"] == "state_not_shared"
    assert "--shares" in view["error"]["message"]


def test_wrong_token_is_refused_with_what_to_do(place: Place) -> None:
    service = place.serve(token=TOKEN)
    refused = place.node("a", service.url, token="some other words here")
    assert refused.process.wait(timeout=60) == 2
    assert "wants its token" in refused.log()
    nameless = place.node("b", service.url)
    assert nameless.process.wait(timeout=60) == 2
    place.node("c", service.url, token=TOKEN)
    service.wait_for_node("c")
    assert set(service.nodes()) == {"c"}


def test_second_node_of_a_name_is_refused(place: Place) -> None:
    service = place.serve()
    first = place.node("a", service.url)
    service.wait_for_node("a")
    (place.folder / "other").mkdir()
    second = NodeProcess(place.folder / "other", "a", service.url)
    try:
        assert eventually(lambda: "another node that is called a" in second.log())
        assert first.process.poll() is None
        first.end(signal.SIGKILL)
        # Its name is free as soon as its connection is gone.
        assert eventually(lambda: bool(second.said)), second.log()
        assert service.nodes()["a"]["state"] == "connected"
    finally:
        second.close()


def test_tls_with_the_right_authority_and_not_with_another(place: Place) -> None:
    (place.folder / "other").mkdir()
    ca, pem = write_certificates(place.folder)
    other_ca, _ = write_certificates(place.folder / "other")
    toml = place.folder / "headgate.toml"
    toml.write_text(toml.read_text() + f"[server]\ntls_certificate = '{pem}'\n")
    service = place.serve(token=TOKEN, ca=ca)
    assert service.url.startswith("https://")
    node = place.node("a", service.url, token=TOKEN, arguments=("--ca", str(ca)))
    service.wait_for_node("a")
    job = service.start("endless", place.text())
    service.wait(job, lambda v: v["committed_epoch"] >= 2 and v["node"] == "a")
    for flags in (("--ca", str(other_ca)), ()):
        stranger = place.node("b", service.url, token=TOKEN, arguments=flags)
        assert stranger.process.wait(timeout=60) == 2
        assert "is not to be trusted" in stranger.log()
        assert "--ca" in stranger.log()
    command = [sys.executable, "-m", "headgate", "nodes", "--url", service.url, "--token", TOKEN]
    shown = subprocess.run(
        command, capture_output=True, text=True, cwd=node.folder, env=_with_ca(ca), check=True
    )
    assert "connected" in shown.stdout
    assert job in shown.stdout
    refused = subprocess.run(
        command, capture_output=True, text=True, cwd=node.folder, env=_with_ca(other_ca)
    )
    assert refused.returncode == 2
    assert "is not to be trusted" in refused.stderr
    service.stop(job)
    assert place.is_exact()


SPARK_SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', message_count = '20000');
CREATE TABLE evens (counter BIGINT)
WITH (connector = 'single_file', path = '{out}', format = 'json', type = 'sink');
INSERT INTO evens SELECT counter FROM numbers WHERE counter % 2 = 0;
"""


def test_spark_job_goes_on_on_another_node_with_exact_output(place: Place) -> None:
    (place.folder / "headgate.toml").write_text(
        f"state_url = 'state'\n[controller]\nnode_timeout = '{TIMEOUT_SECONDS}s'\n"
        "[job]\nparallelism = 2\ncheckpoint_interval = '500ms'\nmax_batch_rows = 500\n"
    )
    service = place.serve()
    nodes = {
        "a": place.node("a", service.url, slots=2, spark=True),
        "b": place.node("b", service.url, slots=4, spark=True),
    }
    for name in nodes:
        service.wait_for_node(name)
    output = place.folder / "evens.json"
    job = service.start("evens", SPARK_SQL.format(out=output))
    view = service.wait(job, lambda v: v["committed_epoch"] >= 1 or v["terminal"])
    assert (view["terminal"], view["node"]) == (False, "b")
    nodes["b"].end(signal.SIGKILL)
    view = service.wait(job, lambda v: v["terminal"])
    assert (view["state"], view["recoveries"]) == ("finished", 1), view
    rows = [json.loads(line)["counter"] for line in output.read_text().splitlines()]
    assert sorted(rows) == list(range(0, 20_000, 2))
    assert nodes["a"].end(signal.SIGTERM) == 0
    # Nothing of the worker's work is left on the node that ended in good order.
    assert list(nodes["a"].data.glob("*/scratch/*/*")) == []


def _with_ca(ca: Path) -> dict[str, str]:
    return {**os.environ, "HEADGATE_CA": str(ca), "COLUMNS": "200"}


def test_two_services_share_a_node(place: Place, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with contextlib.ExitStack() as stack:
        other = Place(tmp_path / "second", stack)
        services = [place.serve(), other.serve()]
        node = place.node("a", services[0].url, services[1].url, slots=3)
        for service in services:
            service.wait_for_node("a")
        first = services[0].start("endless", place.text())
        services[0].wait(first, lambda v: v["committed_epoch"] >= 1)
        assert eventually(lambda: services[1].nodes()["a"]["slots_free"] == 1)
        # The same name on the other service: it is another job, with a worker of its own.
        second = services[1].start("endless", other.text())
        view = services[1].wait(second, lambda v: "needs" in v["doing"])
        assert view["doing"] == "needs 2 slots; node a has 1 of 3 free"
        services[0].stop(first)
        services[1].wait(second, lambda v: v["committed_epoch"] >= 1)
        assert len(node.workers()) == 1
        services[1].stop(second)
        assert place.is_exact()
        assert other.is_exact()
