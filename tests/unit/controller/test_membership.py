"""A controller among others: who drives a job, what is said about it, and what lapses when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.exc import OperationalError

from headgate.controller.clock import SteadyClock
from headgate.controller.controller import Controller
from headgate.controller.leases import LeaseKeeper
from headgate.controller.membership import DrivenElsewhere, driven_elsewhere, present
from headgate.controller.runner import JobRunner
from headgate.controller.store.leases import (
    ControllerCard,
    Driver,
    LastProgress,
    Lease,
    LeaseStore,
)
from headgate.core.errors import ExternalError
from headgate.core.ids import JobId
from headgate.core.messages import Progress
from tests.unit.controller.support import GRAPH, controller_settings, job_spec

JOB = JobId("orders")
TTL_MS = 15_000
PATIENCE_SECONDS = 60.0


class FakeClock:
    now = 1_000_000

    def now_ms(self) -> int:
        return self.now


class FakeLeases:
    """A database of leases that can be away; each renewal takes a while."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.away = False
        self.lost: set[JobId] = set()
        self.said: list[Mapping[JobId, LastProgress]] = []

    def renew(
        self,
        card: ControllerCard,
        held: Sequence[Lease],
        *,
        ttl_ms: int,
        said: Mapping[JobId, LastProgress] | None = None,
    ) -> dict[JobId, Lease]:
        self._clock.now += 100
        if self.away:
            raise OperationalError("renew", None, ConnectionError("away"))
        self.said.append(said or {})
        return {lease.job: lease for lease in held if lease.job not in self.lost}


class FakeRunner:
    """What the keeper of leases sees of a runner."""

    def __init__(self, job: JobId) -> None:
        self.job = job
        self.lease = Lease(job=job, holder="us", number=1, expires_ms=0)
        self.is_over = False
        self.fence: bool | None = False

    def renewed(self, lease: Lease) -> None:
        self.lease = lease

    def is_superseded(self) -> bool:
        if self.fence is None:
            raise ExternalError("the store does not answer")
        return self.fence


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = FakeLeases(self.clock)
        self.lost: list[JobId] = []
        self.said: dict[JobId, LastProgress] = {}
        self.keeper = LeaseKeeper(
            cast(LeaseStore, self.store),
            present("", 0),
            TTL_MS,
            lambda runner: self.lost.append(runner.job),
            said=lambda: self.said,
            clock=self.clock,
        )

    def keep(self, name: str) -> FakeRunner:
        runner = FakeRunner(JobId(name))
        self.keeper.keep(cast(JobRunner, runner), self.clock.now)
        return runner

    def renew(self) -> None:
        try:
            self.keeper.renew_all()
        except OperationalError:
            assert self.store.away

    def lapsed(self) -> set[str]:
        return {runner.job for runner in self.keeper.lapsed()}


@pytest.fixture
def bench() -> Bench:
    return Bench()


# ---- what lapses -----------------------------------------------------------------------------


def test_lease_that_somebody_else_has_is_told_once(bench: Bench) -> None:
    bench.keep("one"), bench.keep("two")
    bench.store.lost = {JobId("one")}
    bench.renew()
    bench.renew()
    assert bench.lost == ["one"]


def test_lease_lapses_a_whole_time_after_its_last_renewal_was_asked_for(bench: Bench) -> None:
    bench.keep("one")
    asked = bench.clock.now
    bench.renew()
    bench.store.away = True
    bench.clock.now = asked + TTL_MS - 101
    bench.renew()
    assert bench.lapsed() == set()
    bench.clock.now = asked + TTL_MS
    assert bench.lapsed() == {"one"}
    bench.store.away = False
    bench.renew()
    assert bench.lapsed() == set()
    assert bench.lost == []


def test_lease_that_was_taken_since_the_database_last_heard_of_us_is_as_young_as_that(
    bench: Bench,
) -> None:
    bench.keep("old")
    bench.clock.now += TTL_MS - 1
    bench.keep("new")
    bench.clock.now += 1
    assert bench.lapsed() == {"old"}


def test_job_without_its_lease_runs_on_until_another_controller_has_claimed_it(
    bench: Bench,
) -> None:
    runner, other = bench.keep("one"), bench.keep("two")
    runner.fence = True
    bench.keeper.ask_fences()
    assert bench.lost == [], "its lease has not lapsed: the database has the say"
    bench.store.away = True
    bench.clock.now += TTL_MS
    other.fence = None
    bench.keeper.ask_fences()
    bench.keeper.ask_fences()
    assert bench.lost == ["one"], "and one whose fence cannot be read is kept"


def test_what_workers_said_is_stored_when_it_is_new(bench: Bench) -> None:
    bench.keep("one")
    bench.said = {JobId("one"): LastProgress(at_ms=5, progress=Progress())}
    bench.renew()
    bench.renew()
    bench.said = {JobId("one"): LastProgress(at_ms=6, progress=Progress())}
    bench.renew()
    assert [{job: last.at_ms for job, last in said.items()} for said in bench.store.said] == [
        {"one": 5},
        {},
        {"one": 6},
    ]


def test_after_the_database_was_away_others_get_time_to_renew_their_leases(bench: Bench) -> None:
    bench.renew()
    assert not bench.keeper.is_back_only_now()
    bench.store.away = True
    bench.clock.now += TTL_MS
    assert bench.keeper.is_back_only_now(), "it is still away"
    bench.renew()
    bench.store.away = False
    bench.renew()
    for _ in range(3):
        assert bench.keeper.is_back_only_now()
        bench.clock.now += TTL_MS // 3
        bench.renew()
    assert not bench.keeper.is_back_only_now()


# ---- what is said ----------------------------------------------------------------------------


def driver(url: str = "http://a:1", *, silent_ms: int = 1_000) -> Driver:
    card = ControllerCard(
        holder="a", instance="i", url=url, host="host-a", pid=7, version="1", started_ms=0
    )
    return Driver(holder="a", expires_in_ms=9_000, card=card, silent_ms=silent_ms)


def test_command_for_another_controller_s_job_is_answered_with_its_url() -> None:
    found = driven_elsewhere(JOB, driver(), TTL_MS)
    assert (found.code, found.controller, found.retry_after_seconds) == (
        "job_leased",
        "http://a:1",
        None,
    )
    assert "ask http://a:1" in found.message


def test_controller_that_is_silent_is_not_recommended() -> None:
    found = driven_elsewhere(JOB, driver(silent_ms=8_000), TTL_MS)
    assert (found.code, found.controller) == ("controller_silent", None)
    # What is left of the lease, and the time until somebody looks.
    assert found.retry_after_seconds == 14
    assert "not been heard of for 8 s" in found.message


def test_controller_without_a_service_is_named_by_its_process() -> None:
    found = driven_elsewhere(JOB, driver(""), TTL_MS)
    assert (found.code, found.controller, found.retry_after_seconds) == ("job_leased", None, None)
    assert "process 7 on host-a" in found.message


def test_job_that_nobody_drives_any_more_is_worth_another_try() -> None:
    assert driven_elsewhere(JOB, None, TTL_MS).retry_after_seconds == 1


# ---- two controllers -------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Controller, Controller]]:
    settings = controller_settings(tmp_path, rows=100_000)
    first, second = (Controller(settings, lambda spec: GRAPH) for _ in range(2))
    first.start()
    second.start()
    yield first, second
    second.close()
    first.close()


def test_refused_restart_does_not_change_how_the_job_is_run(
    tmp_path: Path, pair: tuple[Controller, Controller]
) -> None:
    first, second = pair
    job = first.create_job(job_spec(tmp_path))
    other = job_spec(tmp_path, parallelism=3)
    with pytest.raises(DrivenElsewhere):
        second.restart_job(job, spec=other)
    assert second.job_spec(job) == job_spec(tmp_path)
    first.restart_job(job, spec=other)
    assert second.job_spec(job) == other


def test_job_driven_elsewhere_is_shown_with_what_its_worker_said(
    tmp_path: Path, pair: tuple[Controller, Controller]
) -> None:
    first, second = pair
    job = first.create_job(job_spec(tmp_path))
    status = second.wait_for(job, lambda s: s.progress is not None, PATIENCE_SECONDS)
    assert not status.driven_here
    assert status.driven_by is not None
    assert status.progress_at_ms is not None
    assert [s.driven_by for s in second.job_statuses()] == [status.driven_by]
    with pytest.raises(DrivenElsewhere):
        second.membership.need_driver(job)
    first.membership.need_driver(job)
    assert sorted(seen.jobs for seen in second.membership.controllers()) == [0, 1]


def test_job_of_a_deleted_one_s_name_gets_its_first_worker(
    tmp_path: Path, pair: tuple[Controller, Controller]
) -> None:
    first, second = pair
    job = first.create_job(job_spec(tmp_path), JOB)
    first.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
    first.stop_job(job, "force")
    first.wait_for(job, lambda s: s.terminal and s.driven_by is None, PATIENCE_SECONDS)
    second.delete_job(job)
    anew = tmp_path / "anew"
    assert first.create_job(job_spec(anew), JOB) == job
    status = first.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
    assert (status.generation, status.recoveries) == (1, 0)


def test_clock_of_a_controller_is_the_database_s(pair: tuple[Controller, Controller]) -> None:
    first, second = pair
    assert abs(first.clock.now_ms() - second.clock.now_ms()) < 60_000
    assert SteadyClock(5_000).now_ms() < 60_000
