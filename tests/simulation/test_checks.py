"""The checks judge what is true of a job, and not what a sleeping or replaced process believes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headgate.controller.checkpoints.phases import Coordinator
from headgate.controller.rules.events import Event, RestartRequested, Tick
from headgate.controller.rules.generation import RunningGeneration
from headgate.controller.rules.job_facts import JobFacts, Lineage
from headgate.controller.rules.state import JobState
from headgate.controller.rules.states.recovering import Recovering
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.states.stopped import Stopped
from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import ErrorInfo
from headgate.core.ids import Epoch, Generation
from headgate.state.protocol import layout
from headgate.state.protocol.writes import claim_generation, write_savepoint
from tests.simulation.controller import Controller, Runner
from tests.simulation.faults import KINDS
from tests.simulation.garbage import Plain, check_garbage
from tests.simulation.people import LOOK_MS, RESTARTS_MAX
from tests.simulation.violation import Violation
from tests.simulation.watch import JobWatch
from tests.simulation.world import Setting, World

# One job, so many epochs that retention has deleted the first, and more than one that is kept.
SEED_OF_MANY_EPOCHS = 42


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner that holds the lease of a job, in a world whose controllers do nothing."""
    monkeypatch.setattr(Controller, "_watch_leases", lambda self: None)
    monkeypatch.setattr(Runner, "_turn", lambda self: None)
    world = World(Setting(seed=0))
    yield _take_up(world)
    world.close()


def _take_up(world: World) -> Runner:
    controller, job = next(iter(world.controllers.values())), next(iter(world.workloads))
    lease = world.database.acquire(job, controller.name, now_ms=controller.now_ms(), ttl_ms=1_000)
    assert lease is not None
    controller.runners[job] = Runner(controller, job, lease)
    return controller.runners[job]


def _world(runner: Runner) -> World:
    return runner.controller.world


def _watch(runner: Runner) -> JobWatch:
    return _world(runner).checks.jobs[runner.job]


def _running(facts: JobFacts) -> Running:
    coordinator = Coordinator(
        lineage=Lineage(), last_started_ms=0, last_cleanup_ms=0, checkpoints_since_cleanup=0
    )
    running = RunningGeneration(
        generation=Generation(1),
        parallelism=1,
        needs=(),
        coordinator=coordinator,
        since_ms=0,
        last_heard_ms=0,
    )
    return Running(facts=facts, running=running)


def _handled(runner: Runner, state: JobState) -> None:
    runner.state = state
    _world(runner).conduct.event_handled(runner, Tick(), state, stored=False)


# ---- beginning anew --------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["target_changed", "target"])
def test_job_that_misses_output_it_was_told_to_ignore_has_forgotten_that(
    runner: Runner, code: str
) -> None:
    error = ErrorInfo(message="cut", code=code)
    facts = replace(runner.state.facts, last_error=error)
    runner.state = Recovering(
        facts=facts, source=error, reason="cut", domain=error.domain, not_before_ms=0
    )
    if code == "target_changed":
        with pytest.raises(Violation, match="begun_anew_forgotten"):
            _world(runner).people.begin_to_want()
    else:
        _world(runner).people.begin_to_want()


# ---- a stop ----------------------------------------------------------------------------------


def test_job_that_runs_although_a_stop_is_stored_is_noticed(runner: Runner) -> None:
    _watch(runner).stop_asked = True
    with pytest.raises(Violation, match="stop_forgotten"):
        _handled(runner, _running(runner.state.facts))


def test_what_a_runner_without_the_lease_believes_says_nothing_about_a_stop(
    runner: Runner,
) -> None:
    _take_up(_world(runner))
    assert not runner.holds_lease
    _watch(runner).stop_asked = True
    _handled(runner, _running(runner.state.facts))
    _handled(runner, Stopped(facts=runner.state.facts))
    _world(runner).conduct.event_begins(runner, RestartRequested(mode="safe"))
    assert _watch(runner).stop_asked


def test_lease_of_a_lost_database_is_none_although_the_next_has_the_same_number(
    runner: Runner,
) -> None:
    assert runner.holds_lease
    _world(runner).lose_database()
    after = _take_up(_world(runner))
    assert after.lease.number == runner.lease.number
    assert after.holds_lease
    assert not runner.holds_lease


# ---- restarts --------------------------------------------------------------------------------


def _look_often(runner: Runner, monkeypatch: pytest.MonkeyPatch, *, asleep: bool) -> int:
    """Let people look at a stopped job; return how many restarts they asked for."""
    world = _world(runner)
    asked: list[Event] = []
    monkeypatch.setattr(runner, "post", asked.append)
    runner.state = Stopped(facts=runner.state.facts)
    end_ms = world.scheduler.now_ms + (RESTARTS_MAX + 3) * LOOK_MS
    runner.controller.paused_until_ms = end_ms + 1 if asleep else 0
    world.people.begin_to_want()
    while world.scheduler.now_ms < end_ms:
        assert world.scheduler.run_next()
    return len(asked)


def test_people_do_not_lose_patience_with_a_controller_that_stands_still(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _look_often(runner, monkeypatch, asleep=True) == 0


def test_job_that_stays_stopped_after_every_restart_is_stuck(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Violation, match="ends again and again: stopped"):
        _look_often(runner, monkeypatch, asleep=False)


# ---- garbage ---------------------------------------------------------------------------------


@pytest.fixture
def ended() -> Iterator[World]:
    """A world in which nothing went wrong, and which keeps some epochs and has deleted others."""
    world = World(Setting(seed=SEED_OF_MANY_EPOCHS, without=frozenset(KINDS)))
    world.run()
    yield world
    world.close()


def _ended_job(world: World) -> tuple[JobWatch, Plain]:
    job, watch = next(iter(world.checks.jobs.items()))
    return watch, Plain(world.bucket, job, world.scheduler.now_ms)


def _ref(watch: JobWatch, epoch: int) -> CheckpointRef:
    return CheckpointRef(
        generation=Generation(watch.canonical[epoch].generation), epoch=Epoch(epoch)
    )


def test_savepoint_of_which_nobody_was_told_is_no_garbage(ended: World) -> None:
    watch, store = _ended_job(ended)
    job = watch.workload.job
    write_savepoint(store, job, "s1", _ref(watch, watch.newest), now_ms=0)
    check_garbage(ended, job)
    assert layout.savepoint("s1") in ended.bucket.folder(job)


def test_savepoint_whose_data_is_gone_is_garbage(ended: World) -> None:
    watch, store = _ended_job(ended)
    job = watch.workload.job
    write_savepoint(store, job, "s1", _ref(watch, watch.newest), now_ms=0)
    savepoint = json.loads(store.get(layout.savepoint("s1")))
    ended.bucket.folder(job).pop(layout.savepoint("s1"))
    gone = watch.canonical[1]
    assert gone.manifest_path not in ended.bucket.folder(job)
    savepoint["checkpoint"] = {"generation": gone.generation, "epoch": 1}
    savepoint["manifest"] = gone.manifest_path
    store.create(layout.savepoint("s1"), json.dumps(savepoint).encode())
    with pytest.raises(Violation, match="garbage_left"):
        check_garbage(ended, job)


def test_what_the_last_generation_starts_from_is_no_garbage(ended: World) -> None:
    watch, store = _ended_job(ended)
    job, kept = watch.workload.job, watch.workload.spec.limits.retained_checkpoints
    oldest = watch.newest - kept + 1
    claim_generation(store, job, claimant="late", base=_ref(watch, oldest), parallelism=1, now_ms=0)
    limits = replace(watch.workload.spec.limits, retained_checkpoints=1)
    watch.workload = replace(watch.workload, spec=replace(watch.workload.spec, limits=limits))
    check_garbage(ended, job)
    assert layout.epoch_record(oldest) in ended.bucket.folder(job)
