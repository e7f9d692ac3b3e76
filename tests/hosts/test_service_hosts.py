"""A service on hosts that share nothing: two controllers, two nodes, Spark, Postgres and a store.

The job's driver runs on a node, its tasks on the Workers of a Spark cluster, its state and both of
its ends are in an S3 API, the jobs themselves in Postgres. Hosts die and links are cut; the output
is exact each time, and nobody has to do anything.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.hosts.totals import Job
from tests.support.hosts import (
    Host,
    HostProcess,
    Network,
    PostgresOnHost,
    S3Api,
    StandaloneCluster,
)
from tests.support.hosts.host import HOME
from tests.support.hosts.spark import SMALL
from tests.support.needed import IN_SOAK
from tests.support.waiting import eventually

PORT = 8642
TOKEN = "a-token-for-tests-only"
RATE = 500
MINUTE_SECONDS = 60.0
START_SECONDS = 240.0
END_SECONDS = 600.0
LEAVE_SECONDS = 120.0
HEADGATE = (sys.executable, "-m", "headgate")
# The service and the node themselves, what they were given, and the logs that they keep.
_IS_OURS = re.compile(
    r"-m headgate (serve|node)|/headgate\.toml|/totals\.sql|/logs/|/nodes\.json"
    r"|/\.headgate-node/(node\.lock|[^/]+-8642)$"
)
SETTINGS = """
state_url = "{state}"
[server]
host = "{address}"
port = {port}
advertise_url = "http://{address}:{port}"
[controller]
database_url = "{database}"
lease_ttl = "8s"
workers = "nodes"
node_timeout = "8s"
[job]
parallelism = 2
checkpoint_interval = "2s"
heartbeat_timeout = "15s"
master = "{master}"
[job.spark]
"""

pytestmark = pytest.mark.timeout(900)


@dataclass
class System:
    """All hosts, and what runs on them."""

    network: Network
    store: S3Api
    postgres: PostgresOnHost
    cluster: StandaloneCluster
    controllers: list[Host]
    nodes: list[Host]
    processes: dict[str, HostProcess] = field(default_factory=dict)
    # By the name of a controller: how the test reaches it.
    clients: dict[str, httpx.Client] = field(default_factory=dict)

    @property
    def workers(self) -> list[Host]:
        return [worker.host for worker in self.cluster.workers]

    def serve(self, host: Host) -> None:
        pairs = (word.split("=", 1) for word in SMALL[1::2])
        spark = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in pairs)
        settings = SETTINGS.format(
            state=self.store.url("state"),
            address=host.address,
            port=PORT,
            database=self.postgres.url,
            master=self.cluster.url,
        )
        host.put(f"{HOME}/headgate.toml", settings + spark)
        started = host.start([*HEADGATE, "serve"], log=f"{host.name}.log")
        self.processes[host.name] = started
        self.clients[host.name] = httpx.Client(
            base_url=f"http://{host.forward(PORT)}/api/v1",
            headers={"Authorization": f"Bearer {TOKEN}", "Host": f"{host.address}:{PORT}"},
            timeout=10,
        )
        assert eventually(lambda: self.get(host, "/jobs") is not None, START_SECONDS), started.log()

    def join(self, host: Host) -> None:
        urls = [f"http://{controller.address}:{PORT}" for controller in self.controllers]
        words = [word for url in urls for word in ("--join", url)]
        command = [*HEADGATE, "node", "--slots", "2", "--name", host.name, *words]
        self.processes[host.name] = host.start(command, log=f"{host.name}.log")

    def get(self, controller: Host, path: str) -> Any:
        """Return what a controller answers; None if it does not, or cannot."""
        try:
            answer = self.clients[controller.name].get(path)
        except httpx.HTTPError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def start(self, job: Job) -> str:
        """Start the job at the first controller, and wait until it has published something."""
        first = self.controllers[0]
        first.put(f"{HOME}/totals.sql", job.sql(RATE))
        where = ("--url", f"http://{first.address}:{PORT}", "--json")
        said = first.run(*HEADGATE, "start", "totals.sql", *where)
        started = json.loads(said.stdout)
        name = str(started.get("job") or started.get("id"))
        self.until(name, lambda view: view["committed_epoch"] >= 2)
        return name

    def view(self, job: str) -> dict[str, Any] | None:
        """Return the job as any controller that answers knows it."""
        for host in self.controllers:
            if host.is_up and (found := self.get(host, f"/jobs/{job}")) is not None:
                return dict(found)
        return None

    def until(self, job: str, condition: Any, patience: float = START_SECONDS) -> dict[str, Any]:
        """Wait until the job is as it should be; return how it is then."""
        seen: list[dict[str, Any]] = []

        def is_met() -> bool:
            view = self.view(job)
            seen[:] = seen[:0] if view is None else [view]
            return view is not None and bool(condition(view))

        assert eventually(is_met, patience), f"{seen}\n{self.story()}"
        return seen[0]

    def goes_on(self, job: str) -> dict[str, Any]:
        """Wait until the job has committed two more epochs."""
        epoch = self.until(job, lambda view: True)["committed_epoch"]
        return self.until(job, lambda view: view["terminal"] or view["committed_epoch"] > epoch + 1)

    def finish(self, job: str) -> dict[str, Any]:
        """Wait until the job has ended well, and nothing of it is left on any host that is up."""
        view = self.until(job, lambda view: view["terminal"], END_SECONDS)
        assert view["state"] == "finished", f"{view}\n{self.story()}"
        # Whoever was cut off has to find out first that nobody drives him any more.
        eventually(lambda: self.left_behind() == [], LEAVE_SECONDS)
        left = self.left_behind()
        assert not left, "\n".join(left[:60])
        return view

    def left_behind(self) -> list[str]:
        found = self.cluster.left_behind()
        for host in (*self.controllers, *self.nodes):
            if host.is_up:
                found += [
                    f"{host.name}: {name}" for name in host.leftovers() if not _IS_OURS.search(name)
                ]
        return found

    def story(self) -> str:
        """Return the end of what everybody said."""
        said = {name: process.log() for name, process in self.processes.items()}
        for node in self.nodes:
            for path in sorted(node.path.rglob("worker-*.log")):
                said[f"{node.name}, {path.name}"] = path.read_text(errors="replace")
        return "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in said.items())


@pytest.fixture
def system(network: Network) -> System:
    store = S3Api(network.host("store"))
    network.environment.update(store.environment)
    network.environment["HEADGATE_TOKEN"] = TOKEN
    made = System(
        network,
        store,
        PostgresOnHost(network.host("database")),
        # Three cores for a job of two: a new driver must get those of one that died silently.
        StandaloneCluster(
            network.host("master"), [network.host(f"worker{number}") for number in range(3)]
        ),
        [network.host("controller0"), network.host("controller1")],
        [network.host("node0"), network.host("node1")],
    )
    for controller in made.controllers:
        made.serve(controller)
    for node in made.nodes:
        made.join(node)
    return made


def test_the_job_of_a_killed_node_goes_on_on_the_other(system: System) -> None:
    job = Job(system.store, rows=RATE * 60)
    name = system.start(job)
    node = system.until(name, lambda view: view["node"])["node"]
    (killed,) = [host for host in system.nodes if host.name == node]
    killed.kill()
    moved = system.until(name, lambda view: view["node"] not in ("", node) or view["terminal"])
    assert moved["generation"] == 2, moved
    system.finish(name)
    job.assert_exact()


def test_the_jobs_of_a_killed_controller_go_on_at_the_other(system: System) -> None:
    job = Job(system.store, rows=RATE * 60)
    name = system.start(job)
    killed, other = system.controllers
    killed.kill()
    taken = system.until(name, lambda view: view["generation"] >= 2 or view["terminal"])
    assert taken["driven_by"] == f"http://{other.address}:{PORT}", taken
    system.finish(name)
    job.assert_exact()


def test_each_link_cut_for_a_minute(system: System) -> None:
    job = Job(system.store, rows=RATE * (240 if IN_SOAK else 120))
    name = system.start(job)
    first = system.controllers[0]
    node = system.until(name, lambda view: view["node"])["node"]
    driver = next(host for host in system.nodes if host.name == node)
    cut, heal = system.network.cut, system.network.heal
    store, master, workers = system.store.host, system.cluster.master, system.workers
    rounds = [
        [(first, driver), (workers[0], store), (workers[1], workers[2])],
        [(first, system.postgres.host), (driver, workers[1]), (workers[0], master)],
        [(first, store), (driver, store), (driver, master)],
    ]
    for links in rounds if IN_SOAK else rounds[:1]:
        for one, other in links:
            cut(one, other)
        eventually(lambda: False, MINUTE_SECONDS)
        for one, other in links:
            heal(one, other)
        system.goes_on(name)
    system.finish(name)
    job.assert_exact()
