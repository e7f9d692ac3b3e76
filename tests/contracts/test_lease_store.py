"""One suite for leases and controllers over SQLite and over a real Postgres."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from headgate.controller.applying import Change, apply_event
from headgate.controller.clock import SteadyClock
from headgate.controller.rules.events import StopRequested
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.state import stored_form
from headgate.controller.rules.states.created import Created
from headgate.controller.store.jobs import JobStore
from headgate.controller.store.leases import (
    CONTROLLERS_KEPT_MS,
    ControllerCard,
    LastProgress,
    Lease,
    LeaseHeld,
)
from headgate.controller.store.tables import leases
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.core.messages import Progress

JOB, NOBODY = JobId("orders"), JobId("nobody")
TTL_MS = 10_000


class FakeClock:
    """A database's clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self, connection: sa.Connection) -> int:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[JobStore]:
    store = JobStore(url, clock=clock)
    yield store
    store.close()


def created(store: JobStore, job: JobId = JOB, *, now_ms: int = 1_000, holder: str = "") -> None:
    spec = JobSpec(name="orders", sql="SELECT 1", state_url="memory://x", parallelism=2)
    facts = JobFacts(job=job, limits=Limits(), parallelism=2, entered_ms=now_ms)
    store.create_job(job, spec, Created(facts=facts), now_ms, holder=holder)


def card(holder: str = "a", url: str = "http://a:1") -> ControllerCard:
    return ControllerCard(
        holder=holder, instance=holder, url=url, host="h", pid=1, version="1", started_ms=5
    )


def taken(store: JobStore, holder: str = "a", job: JobId = JOB) -> Lease:
    lease = store.leases.acquire(job, holder, ttl_ms=TTL_MS)
    assert isinstance(lease, Lease)
    return lease


# ---- leases ----------------------------------------------------------------------------------


def test_lease_excludes_another_controller_until_it_runs_out(
    store: JobStore, clock: FakeClock
) -> None:
    created(store)
    lease = taken(store, "a")
    clock.now += TTL_MS - 1
    held = store.leases.acquire(JOB, "b", ttl_ms=TTL_MS)
    assert held == LeaseHeld(holder="a", expires_ms=lease.expires_ms)
    clock.now += 1
    assert taken(store, "b").number == 2


def test_lease_of_a_dead_holder_is_taken_at_once(store: JobStore) -> None:
    created(store)
    taken(store, "a")
    stolen = store.leases.acquire(JOB, "b", ttl_ms=TTL_MS, is_dead=lambda holder: holder == "a")
    assert isinstance(stolen, Lease)


def test_renewed_lease_does_not_run_out(store: JobStore, clock: FakeClock) -> None:
    created(store)
    lease = taken(store, "a")
    clock.now += TTL_MS - 1
    renewed = store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS)
    assert renewed[JOB].number == lease.number
    clock.now += TTL_MS - 1
    assert isinstance(store.leases.acquire(JOB, "b", ttl_ms=TTL_MS), LeaseHeld)


def test_all_leases_are_renewed_at_once_and_the_lost_ones_are_named(
    store: JobStore, clock: FakeClock
) -> None:
    jobs = [JobId(f"job-{n}") for n in range(1_203)]
    with store._engine.begin() as connection:
        rows = [{"job": job, "holder": "a", "number": 3, "expires_ms": 0} for job in jobs]
        connection.execute(sa.insert(leases), rows)
        # One was taken over, one deleted, and one taken over under the number that was lost.
        gone = sa.update(leases).where(leases.c.job == jobs[7])
        connection.execute(gone.values(holder="b", number=4))
        connection.execute(sa.delete(leases).where(leases.c.job == jobs[8]))
        connection.execute(sa.update(leases).where(leases.c.job == jobs[9]).values(holder="b"))
    held = [Lease(job=job, holder="a", number=3, expires_ms=0) for job in jobs]
    renewed = store.leases.renew(card("a"), held, ttl_ms=TTL_MS)
    assert set(jobs) - set(renewed) == set(jobs[7:10])
    assert {lease.expires_ms for lease in renewed.values()} == {clock.now + TTL_MS}


def test_lease_that_was_taken_over_cannot_be_renewed(store: JobStore, clock: FakeClock) -> None:
    created(store)
    lease = taken(store, "a")
    clock.now += TTL_MS
    taken(store, "b")
    assert store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS) == {}


def test_lease_that_ran_out_and_that_nobody_took_is_renewed(
    store: JobStore, clock: FakeClock
) -> None:
    created(store)
    lease = taken(store, "a")
    clock.now += 100 * TTL_MS
    assert set(store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS)) == {JOB}


def test_released_lease_is_free_at_once(store: JobStore) -> None:
    created(store)
    store.leases.release(taken(store, "a"))
    taken(store, "b")


def test_release_of_a_lost_lease_does_not_free_the_new_one(
    store: JobStore, clock: FakeClock
) -> None:
    created(store)
    old = taken(store, "a")
    clock.now += TTL_MS
    taken(store, "b")
    store.leases.release(old)
    assert isinstance(store.leases.acquire(JOB, "c", ttl_ms=TTL_MS), LeaseHeld)


def test_new_job_is_its_creator_s_before_anybody_else_sees_it(store: JobStore) -> None:
    created(store, holder="a")
    assert isinstance(store.leases.acquire(JOB, "b", ttl_ms=TTL_MS), LeaseHeld)
    assert store.leases.free_jobs("b", lambda holder: False) == []
    assert taken(store, "a").number == 1


def test_lease_on_a_job_that_does_not_exist_is_refused(store: JobStore) -> None:
    with pytest.raises(UserError, match="no job"):
        store.leases.acquire(NOBODY, "a", ttl_ms=TTL_MS)


def race(url: str, clock: FakeClock, controllers: int = 6) -> list[Lease | LeaseHeld]:
    """Let many controllers, each with a store of its own, ask for the job at the same moment."""
    results: list[Lease | LeaseHeld] = []
    stores = [JobStore(url, clock=clock) for _ in range(controllers)]
    barrier = threading.Barrier(controllers)

    def ask(number: int) -> None:
        barrier.wait()
        results.append(stores[number].leases.acquire(JOB, f"c{number}", ttl_ms=TTL_MS))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(controllers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    return results


def test_only_one_of_many_controllers_gets_a_new_job(
    url: str, store: JobStore, clock: FakeClock
) -> None:
    created(store)
    results = race(url, clock)
    assert len(results) == 6
    assert sum(isinstance(result, Lease) for result in results) == 1


def test_only_one_of_many_controllers_gets_the_job_of_a_dead_one(
    url: str, store: JobStore, clock: FakeClock
) -> None:
    created(store)
    for number in range(1, 6):
        clock.now += TTL_MS
        results = race(url, clock, 4)
        (won,) = [result for result in results if isinstance(result, Lease)]
        assert won.number == number


def test_renewal_and_take_over_at_the_same_moment_leave_one_holder(
    url: str, store: JobStore, clock: FakeClock
) -> None:
    created(store)
    other = JobStore(url, clock=clock)
    lease = taken(store, "a")
    for _ in range(20):
        clock.now += TTL_MS
        answers: list[Lease | LeaseHeld] = []
        thread = threading.Thread(
            target=lambda said=answers: said.append(other.leases.acquire(JOB, "b", ttl_ms=TTL_MS))
        )
        thread.start()
        kept = store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS)
        thread.join()
        if isinstance(answers[0], LeaseHeld):
            assert set(kept) == {JOB}
            continue
        # The renewal may have come first and been overtaken: then it says so the next time.
        assert store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS) == {}
        other.leases.release(answers[0])
        lease = taken(store, "a")
    other.close()


# ---- clocks ----------------------------------------------------------------------------------


@pytest.mark.verify
def test_skewed_clock_of_a_controller_s_machine_has_no_say(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases run out by the database's clock. (SQLite's is that of its one machine.)"""
    behind = JobStore(postgres_database)
    created(behind)
    lease = taken(behind, "a")
    hour_ns = 3_600 * 10**9
    true_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + hour_ns)
    ahead = JobStore(postgres_database)
    assert SteadyClock().now_ms() - true_ns() // 1_000_000 > 3_500_000
    assert isinstance(ahead.leases.acquire(JOB, "b", ttl_ms=TTL_MS), LeaseHeld)
    assert ahead.leases.free_jobs("b", lambda holder: False) == []
    # And what they store with a time, they store with the same.
    assert abs(ahead.clock().now_ms() - behind.clock().now_ms()) < 60_000
    assert lease.expires_ms - behind.leases.now_ms() <= TTL_MS
    behind.close()
    ahead.close()


# ---- who is there ----------------------------------------------------------------------------


def test_controllers_are_listed_with_what_they_drive(store: JobStore, clock: FakeClock) -> None:
    jobs = [JobId(name) for name in ("one", "two", "three")]
    for job in jobs:
        created(store, job)
    held = [taken(store, "a", job) for job in jobs[:2]]
    store.leases.renew(card("a"), held, ttl_ms=TTL_MS)
    clock.now += 4_000
    store.leases.renew(card("b", "http://b:1"), [taken(store, "b", jobs[2])], ttl_ms=TTL_MS)
    seen = {c.card.url: (c.jobs, c.silent_ms) for c in store.leases.controllers()}
    assert seen == {"http://a:1": (2, 4_000), "http://b:1": (1, 0)}
    clock.now += TTL_MS - 1
    assert [c.jobs for c in store.leases.controllers()] == [0, 1], "a's leases have run out"
    store.leases.leave("b")
    assert [c.card.holder for c in store.leases.controllers()] == ["a"]
    clock.now += CONTROLLERS_KEPT_MS
    store.leases.renew(card("c"), [], ttl_ms=TTL_MS)
    assert [c.card.holder for c in store.leases.controllers()] == ["c"]


def test_driver_of_a_job_is_known_until_its_lease_runs_out(
    store: JobStore, clock: FakeClock
) -> None:
    created(store)
    assert store.leases.drivers() == {}
    lease = taken(store, "a")
    stranger = store.leases.drivers(JOB)[JOB]
    assert (stranger.holder, stranger.card, stranger.silent_ms) == ("a", None, None)
    store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS)
    clock.now += 3_000
    driver = store.leases.drivers()[JOB]
    assert (driver.card, driver.silent_ms, driver.expires_in_ms) == (card("a"), 3_000, 7_000)
    assert store.leases.drivers(NOBODY) == {}
    clock.now += 7_000
    assert store.leases.drivers() == {}


def test_jobs_that_nobody_drives_are_found_and_ended_ones_are_not(
    store: JobStore, clock: FakeClock
) -> None:
    for number, name in enumerate(("dead", "ours", "driven", "free", "ended")):
        created(store, JobId(name), now_ms=number)
    taken(store, "dead", JobId("dead"))
    taken(store, "us", JobId("ours"))
    taken(store, "a", JobId("driven"))
    lease = taken(store, "a", JobId("ended"))
    stored = store.get_job(JobId("ended"))
    assert stored is not None
    stop = StopRequested(mode="force")
    after = apply_event(stored.state, stop, 2_000, lambda change: None).state
    end = Change(
        before=stored.state,
        after=after,
        stored=stored_form(after),
        reason="told to",
        notes=(),
        at_ms=2_000,
    )
    store.save(lease, 1, end)
    store.leases.release(lease)

    def free() -> list[JobId]:
        return store.leases.free_jobs("us", lambda holder: holder == "dead")

    assert free() == ["dead", "ours", "free"]
    clock.now += TTL_MS
    assert free() == ["dead", "ours", "driven", "free"]


def test_progress_is_stored_only_by_who_holds_the_lease(store: JobStore, clock: FakeClock) -> None:
    created(store)
    said = LastProgress(at_ms=7, progress=Progress(rows_in=3))
    lease = taken(store, "a")
    store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS, said={JOB: said, NOBODY: said})
    assert store.leases.read_progress() == store.leases.read_progress(JOB) == {JOB: said}
    clock.now += TTL_MS
    taken(store, "b")
    late = LastProgress(at_ms=9, progress=Progress(rows_in=9))
    store.leases.renew(card("a"), [lease], ttl_ms=TTL_MS, said={JOB: late})
    assert store.leases.read_progress() == {JOB: said}
    store.delete_job(JOB)
    assert store.leases.read_progress() == {}


# ---- those who fell asleep -------------------------------------------------------------------


@pytest.mark.verify
def test_controller_asleep_in_a_transaction_keeps_nobody_from_its_job(
    postgres_database: str, clock: FakeClock
) -> None:
    asleep = JobStore(postgres_database, clock=clock, patience_ms=2_000)
    awake = JobStore(postgres_database, clock=clock, patience_ms=10_000)
    created(awake)
    taken(asleep, "a")
    clock.now += TTL_MS
    with asleep._engine.connect() as connection:
        row = sa.select(leases).where(leases.c.job == JOB).with_for_update()
        connection.execute(row)
        # It is not waited for.
        assert isinstance(awake.leases.acquire(JOB, "b", ttl_ms=TTL_MS), LeaseHeld)
        deadline = time.monotonic() + 30
        while isinstance(won := awake.leases.acquire(JOB, "b", ttl_ms=TTL_MS), LeaseHeld):
            assert time.monotonic() < deadline, "its session ends, and its lock with it"
            time.sleep(0.1)
        assert won.number == 2
        with pytest.raises(SQLAlchemyError):
            connection.execute(row)
    asleep.close()
    awake.close()
