"""A Spark cluster on hosts that share nothing but the store: killed, cut off, and still exact.

A Master, three Workers of one core, a driver's host with `headgate run`, and an S3 API, each a host
of its own. In every test the output must be exact, and the job may not start again for what Spark
itself gets over: a lost executor is Spark's to replace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.hosts.totals import Job
from tests.support.cli import HeadgateProcess
from tests.support.hosts import Host, Network, S3Api, StandaloneCluster
from tests.support.hosts.host import HOME
from tests.support.needed import in_soak
from tests.support.waiting import eventually

WORKERS = 3
ROWS = 30_000
# So many seconds of rows: longer than it takes to come into the middle of them.
RATE = 600
MINUTE_SECONDS = 60.0
# Many programs on a machine of few cores: seconds for those who do not share it.
END_SECONDS = 600.0
# What a controller keeps of a job that has ended.
_IS_KEPT = re.compile(r"/jobs\.db|/logs/")

pytestmark = pytest.mark.timeout(900)


@dataclass
class Site:
    """All hosts, and what runs on them."""

    network: Network
    store: S3Api
    cluster: StandaloneCluster
    driver: Host

    @property
    def workers(self) -> list[Host]:
        return [worker.host for worker in self.cluster.workers]

    def start(self, job: Job, **options: int) -> HeadgateProcess:
        words = ("--master", self.cluster.url, "--parallelism", str(WORKERS))
        return job.start(self.driver, *words, **options)


@pytest.fixture
def site(network: Network) -> Site:
    store = S3Api(network.host("store"))
    network.environment.update(store.environment)
    workers = [network.host(f"worker{number}") for number in range(WORKERS)]
    cluster = StandaloneCluster(network.host("master"), workers)
    return Site(network, store, cluster, network.host("driver"))


def finish(process: HeadgateProcess, job: Job) -> None:
    assert process.finish(within_seconds=END_SECONDS) == 0, process.story()
    assert process.states()[-1] == "finished"
    job.assert_exact()


def assert_no_trace(process: HeadgateProcess, site: Site, *, may_start_again: bool = False) -> None:
    """What is published is exact by now; this asks whether it took more than it should.

    The job was not started again, and nothing is left on any host: no executor, no Python worker,
    and no file but logs and the database of jobs.
    """
    reasons = [
        event["reason"]
        for event in process.events
        if event["event"] == "StateChanged" and event["after"] == "recovering"
    ]
    # Executors are told to end as their application does, and take a moment.
    eventually(lambda: left_behind(site) == [], 60)
    left = [f"left: {name}" for name in left_behind(site)]
    again = [] if may_start_again else [f"started again: {reason}" for reason in reasons]
    # Both at once: neither hides the other.
    complaints = again + left
    assert not complaints, "\n".join(complaints[:60])


def left_behind(site: Site) -> list[str]:
    own = f"{HOME}/.headgate/"
    found = site.driver.leftovers(ignoring=(f"{HOME}/totals.sql", own))
    found += [n for n in site.driver.files() if n.startswith(own) and not _IS_KEPT.search(n)]
    return found + site.cluster.left_behind()


@in_soak
@pytest.mark.parametrize("rate", [RATE, 0], ids=["numbers", "files in the store"])
def test_nothing_is_shared_but_the_store(site: Site, rate: int) -> None:
    job = Job(site.store, ROWS)
    process = site.start(job, rate=rate)
    finish(process, job)
    assert_no_trace(process, site)


def test_a_worker_host_killed_in_the_middle(site: Site) -> None:
    job = Job(site.store, ROWS)
    process = site.start(job, rate=RATE)
    process.wait_for("CheckpointNote", 2)
    site.workers[0].kill()
    finish(process, job)
    assert_no_trace(process, site)


def test_the_store_out_of_reach_for_a_minute(site: Site) -> None:
    job = Job(site.store, ROWS)
    process = site.start(job, rate=RATE)
    process.wait_for("CheckpointNote", 2)
    everybody = [site.driver, site.cluster.master, *site.workers]
    site.network.cut(site.store.host, *everybody)
    assert not process.has_ended(within_seconds=MINUTE_SECONDS), process.story()
    site.network.heal(site.store.host, *everybody)
    finish(process, job)
    # Whether its tries last for a minute is a matter of settings.
    assert_no_trace(process, site, may_start_again=True)


@in_soak
def test_a_worker_host_cut_off_for_a_minute(site: Site) -> None:
    job = Job(site.store, ROWS)
    process = site.start(job, rate=RATE)
    process.wait_for("CheckpointNote", 2)
    cut_off = site.workers[0]
    site.network.cut(cut_off, site.driver, site.cluster.master)
    process.has_ended(within_seconds=MINUTE_SECONDS)
    site.network.heal(cut_off, site.driver, site.cluster.master)
    finish(process, job)
    assert_no_trace(process, site)
