"""The runner: a thread with a queue, a lease, and actions beside the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from headgate.controller import runner as runner_module
from headgate.controller.announcements import Announcement, StateChanged
from headgate.controller.applying import Change
from headgate.controller.clock import SteadyClock
from headgate.controller.effects.ports import JobPorts
from headgate.controller.effects.slots import SlotPool
from headgate.controller.rules.events import StopRequested
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.states.created import Created
from headgate.controller.runner import JobRunner
from headgate.controller.store.jobs import JobStore, Saved
from headgate.controller.store.leases import Lease, LeaseLost
from headgate.core import failpoints
from headgate.core.errors import InternalError, UserError
from headgate.core.failpoints import Failpoints
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, RunSettings
from headgate.storage import job_folder, open_store
from tests.support.waiting import eventually
from tests.unit.controller.support import GRAPH, JOB

PATIENCE_SECONDS = 20.0


class QuietFleet:
    """Starts nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.started: list[Generation] = []
        self.killed: list[Generation] = []

    def start(self, job: JobId, generation: Generation, token: str) -> None:
        self.started.append(generation)

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        raise AssertionError("nobody has registered")

    def kill(self, job: JobId, generation: Generation) -> None:
        self.killed.append(generation)


class Bench:
    """One job, its store, and runners for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = JobStore(f"sqlite:///{folder / 'jobs.db'}")
        self.spec = JobSpec(name="orders", sql="SELECT 1", state_url=str(folder / "state"))
        facts = JobFacts(job=JOB, limits=Limits(backoff_initial_ms=1), parallelism=1)
        self.store.create_job(JOB, self.spec, Created(facts=facts), 0)
        self.fleet = QuietFleet()
        self.executor = ThreadPoolExecutor(4)
        self.compile: Callable[[], PipelineGraph] = lambda: GRAPH
        self.notices: list[Announcement] = []
        self.changed = threading.Condition()
        self.runners: list[JobRunner] = []

    def runner(self, holder: str = "a") -> JobRunner:
        lease = self.store.leases.acquire(JOB, holder, ttl_ms=1_000, is_dead=lambda holder: True)
        assert isinstance(lease, Lease)
        stored = self.store.get_job(JOB)
        assert stored is not None
        ports = JobPorts(
            job=JOB,
            spec=lambda: self.spec,
            claimant=f"db/{lease.number}/{holder}",
            open_store=lambda: job_folder(open_store(self.spec.state_url), JOB),
            compile=lambda: self.compile(),
            graph=lambda: GRAPH,
            fleet=self.fleet,
            slots=SlotPool(None),
            clock=SteadyClock(),
            new_token=lambda: "t",
            run_settings=lambda generation: RunSettings(state_url="x", scratch_dir="y"),
        )
        runner = JobRunner(stored, lease, self.store, ports, self.executor, self.notify)
        self.runners.append(runner)
        return runner

    def notify(self, announcement: Announcement) -> None:
        with self.changed:
            self.notices.append(announcement)
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is looked at after each announcement too."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self.changed:
            while not condition():
                assert time.monotonic() < deadline, self.moves()
                self.changed.wait(0.05)

    def moves(self) -> list[tuple[str, str]]:
        return [(n.before, n.after) for n in self.notices if isinstance(n, StateChanged)]

    def close(self) -> None:
        for runner in self.runners:
            runner.close()
        self.executor.shutdown()
        self.store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Arm failpoints in this process."""

    def arm(text: str) -> None:
        monkeypatch.setattr(failpoints, "_process", Failpoints.parse(text))

    return arm


def test_state_is_stored_before_its_actions_are_performed(bench: Bench) -> None:
    seen: list[str] = []

    def compile() -> PipelineGraph:
        stored = bench.store.get_job(JOB)
        assert stored is not None
        seen.append(stored.state.kind)
        return GRAPH

    bench.compile = compile
    bench.runner().start()
    bench.wait(lambda: ("compiling", "scheduling") in bench.moves())
    assert seen == ["compiling"]


def test_events_are_taken_while_a_slow_action_runs(bench: Bench) -> None:
    entered, leave = threading.Event(), threading.Event()

    def compile() -> PipelineGraph:
        entered.set()
        leave.wait(PATIENCE_SECONDS)
        return GRAPH

    bench.compile = compile
    runner = bench.runner()
    runner.start()
    assert entered.wait(PATIENCE_SECONDS)
    runner.post(StopRequested(mode="force"))
    bench.wait(lambda: ("compiling", "stopped") in bench.moves())
    leave.set()


def test_loop_that_fails_after_a_persist_takes_the_job_up_again(
    bench: Bench, arm: Callable[[str], None]
) -> None:
    arm("controller.after_persist=error@1")
    runner = bench.runner()
    runner.start()
    # The job was stored as compiling, but nobody compiled: the rule of that state does it.
    bench.wait(lambda: ("compiling", "scheduling") in bench.moves())
    assert not runner.is_over


def test_loop_that_always_fails_is_given_up_and_its_worker_ended(
    bench: Bench, arm: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.controller.runner.RESTART_PAUSE_SECONDS", 0.0)
    arm("controller.after_persist=error@*")
    runner = bench.runner()
    runner.start()
    runner._thread.join(PATIENCE_SECONDS)
    assert runner.is_over
    assert bench.fleet.killed


def test_controller_that_lost_its_lease_changes_nothing_and_ends_its_worker(bench: Bench) -> None:
    first = bench.runner("a")
    first.start()
    bench.wait(lambda: bool(bench.fleet.started))
    second = bench.runner("b")
    before = bench.store.get_job(JOB)
    first.post(StopRequested(mode="force"))
    first._thread.join(PATIENCE_SECONDS)
    assert first.is_over
    assert bench.fleet.killed == [Generation(1)]
    assert bench.store.get_job(JOB) == before
    second.start()
    bench.wait(lambda: Generation(2) in bench.fleet.started)


def test_stop_is_stored_when_its_command_is_done(bench: Bench) -> None:
    runner = bench.runner()
    runner.start()
    bench.wait(lambda: bool(bench.fleet.started))
    command = runner.command(StopRequested(mode="force"))
    assert command.done.wait(PATIENCE_SECONDS)
    assert not command.lost
    stored = bench.store.get_job(JOB)
    assert stored is not None
    assert stored.state.kind in ("stopping", "stopped")


def test_stop_that_a_controller_without_the_lease_was_given_counts_as_lost(bench: Bench) -> None:
    first = bench.runner("a")
    first.start()
    bench.wait(lambda: bool(bench.fleet.started))
    bench.runner("b")
    commands = [first.command(StopRequested(mode="force")) for _ in range(2)]
    first._thread.join(PATIENCE_SECONDS)
    commands.append(first.command(StopRequested(mode="force")))
    assert all(command.done.is_set() and command.lost for command in commands)


def test_next_runner_of_a_job_fences_the_one_before(bench: Bench) -> None:
    first = bench.runner("a")
    first.start()
    bench.wait(lambda: bool(bench.fleet.started))
    first.close()
    bench.runner("b").start()
    bench.wait(lambda: len(bench.fleet.started) == 2)
    assert bench.fleet.started == [Generation(1), Generation(2)]
    # The first one's worker may be alive: it is killed before another is started.
    assert bench.fleet.killed[0] == Generation(1)


def test_refused_pipeline_fails_with_its_error(bench: Bench) -> None:
    def compile() -> PipelineGraph:
        raise UserError("there is no table orders", code="sql")

    bench.compile = compile
    runner = bench.runner()
    runner.start()
    bench.wait(lambda: ("failing", "failed") in bench.moves())
    assert runner.state.kind == "failed"
    assert runner.state.error.message == "there is no table orders"


def test_defect_in_an_action_is_a_failure_of_the_job_and_not_of_the_controller(
    bench: Bench,
) -> None:
    tries = []

    def compile() -> PipelineGraph:
        tries.append(1)
        if len(tries) < 3:
            raise InternalError("a defect") if len(tries) == 1 else ZeroDivisionError("another")
        return GRAPH

    bench.compile = compile
    bench.runner().start()
    bench.wait(lambda: bool(bench.fleet.started))
    assert bench.moves().count(("compiling", "recovering")) == 2


class AwayStore(JobStore):
    """A database that can be told not to answer; what is written just then may yet be stored."""

    away = False
    stored_anyway = False
    asked = 0

    def save(
        self, lease: Lease, version: int, change: Change, *, again: bool = False
    ) -> Saved | LeaseLost:
        self.asked += 1
        if self.away:
            if self.stored_anyway:
                super().save(lease, version, change, again=again)
                self.stored_anyway = False
            raise OperationalError("save", None, ConnectionError("the database is away"))
        return super().save(lease, version, change, again=again)


@pytest.mark.parametrize("stored_anyway", [False, True])
def test_job_waits_for_a_database_that_is_away_and_then_goes_on(
    bench: Bench, stored_anyway: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "DATABASE_RETRY_SECONDS", 0.01)
    store = AwayStore(f"sqlite:///{bench.folder / 'jobs.db'}")
    bench.store.close()
    bench.store = store
    runner = bench.runner()
    runner.start()
    bench.wait(lambda: bool(bench.fleet.started))
    store.asked, store.away, store.stored_anyway = 0, True, stored_anyway
    command = runner.command(StopRequested(mode="force"))
    # More often than a loop that fails is started again.
    assert eventually(lambda: store.asked > 6)
    assert not command.done.is_set()
    assert not bench.fleet.killed
    store.away = False
    assert command.done.wait(PATIENCE_SECONDS)
    assert not command.lost
    assert not runner.is_over
    bench.wait(lambda: runner.state.kind == "stopped")


def test_runner_that_is_closed_waits_no_longer_for_a_database(bench: Bench) -> None:
    store = AwayStore(f"sqlite:///{bench.folder / 'jobs.db'}")
    bench.store.close()
    bench.store = store
    runner = bench.runner()
    runner.start()
    bench.wait(lambda: bool(bench.fleet.started))
    store.away = True
    command = runner.command(StopRequested(mode="force"))
    runner.close()
    assert runner.is_over
    assert command.lost


def test_runner_learns_from_the_fence_that_another_controller_has_the_job(bench: Bench) -> None:
    first = bench.runner("a")
    first.start()
    bench.wait(lambda: bool(bench.fleet.started))
    assert not first.is_superseded()
    second = bench.runner("b")
    second.start()
    bench.wait(lambda: len(bench.fleet.started) == 2)
    assert first.is_superseded()
    assert not second.is_superseded()
