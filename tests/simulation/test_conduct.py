"""The checks themselves: what they must notice, and what only looks like a broken promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headgate.controller.rules.actions import Action, SendToWorker, WriteSavepoint
from headgate.controller.rules.events import LoadPlanned, SavepointWritten, Tick
from headgate.controller.rules.job_facts import Lineage
from headgate.core.checkpoint import LoadingPlan
from headgate.core.ids import Epoch, Generation
from headgate.core.messages import Barrier
from tests.simulation.checks import LoadLook
from tests.simulation.conduct import Conduct
from tests.simulation.controller import Runner
from tests.simulation.violation import Violation
from tests.simulation.world import Setting, World


@pytest.fixture
def world() -> Iterator[World]:
    world = World(Setting(seed=0))
    yield world
    world.close()


# ---- one checkpoint in flight ----------------------------------------------------------------


class Desk:
    """A runner as its conduct is seen: decisions at given times, actions that begin and end."""

    def __init__(self, world: World) -> None:
        self._world = world
        controller = next(iter(world.controllers.values()))
        job = next(iter(world.workloads))
        lease = world.database.acquire(job, controller.name, now_ms=0, ttl_ms=1)
        assert lease is not None
        self._runner = Runner(controller, job, lease)
        self._conduct: Conduct = world.conduct
        self._start_ms = controller.now_ms()
        self.timeout_ms = world.workloads[job].spec.limits.checkpoint_timeout_ms

    def begin(self, action: Action, *, at_ms: int) -> None:
        controller = self._runner.controller
        controller.clock_offset_ms += self._start_ms + at_ms - controller.now_ms()
        self._conduct.event_begins(self._runner, Tick())
        self._conduct.action_begins(self._runner, action)

    def end(self, action: WriteSavepoint) -> None:
        written = SavepointWritten(
            generation=action.generation, epoch=action.epoch, name=action.name
        )
        self._conduct.action_ended(self._runner, action, [written])

    def committed(self) -> None:
        """The checkpoint in flight has its marker."""
        self._conduct._flights[self._runner].over = True


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world)


def barrier(epoch: int, *, generation: int = 1, attempt: int = 1) -> SendToWorker:
    number = Generation(generation)
    message = Barrier(generation=number, epoch=Epoch(epoch), attempt=attempt)
    return SendToWorker(generation=number, message=message)


def savepoint(name: str, epoch: int) -> WriteSavepoint:
    return WriteSavepoint(generation=Generation(1), epoch=Epoch(epoch), name=name)


def test_a_checkpoint_that_begins_while_a_savepoint_is_written_is_noticed(desk: Desk) -> None:
    desk.begin(barrier(1), at_ms=0)
    desk.committed()
    desk.begin(savepoint("a", 1), at_ms=10)
    with pytest.raises(Violation, match="two_in_flight"):
        desk.begin(barrier(2), at_ms=desk.timeout_ms - 1)


def test_a_savepoint_that_was_written_holds_up_nothing(desk: Desk) -> None:
    desk.begin(barrier(1), at_ms=0)
    desk.committed()
    desk.begin(savepoint("a", 1), at_ms=10)
    desk.end(savepoint("a", 1))
    desk.begin(barrier(2), at_ms=20)


def test_a_savepoint_of_an_ended_generation_holds_up_nothing(desk: Desk) -> None:
    desk.begin(barrier(1), at_ms=0)
    desk.committed()
    desk.begin(savepoint("a", 1), at_ms=10)
    desk.begin(barrier(2, generation=2), at_ms=20)


def test_a_savepoint_that_was_given_up_holds_up_nothing_even_when_others_follow(
    desk: Desk,
) -> None:
    desk.begin(barrier(1), at_ms=0)
    desk.committed()
    desk.begin(savepoint("slow", 1), at_ms=10)
    desk.begin(barrier(2), at_ms=desk.timeout_ms)
    desk.committed()
    desk.begin(savepoint("quick", 2), at_ms=desk.timeout_ms + 10)
    desk.end(savepoint("quick", 2))
    desk.begin(barrier(3), at_ms=desk.timeout_ms + 20)


@pytest.mark.parametrize(("attempt", "more_ms"), [(1, 0), (2, 100)])
def test_only_a_new_attempt_gives_a_checkpoint_more_time(
    desk: Desk, attempt: int, more_ms: int
) -> None:
    desk.begin(barrier(1), at_ms=0)
    desk.begin(barrier(1, attempt=attempt), at_ms=100)
    desk.committed()
    desk.begin(savepoint("slow", 1), at_ms=110)
    with pytest.raises(Violation, match="two_in_flight"):
        desk.begin(barrier(2), at_ms=desk.timeout_ms + more_ms - 1)
    desk.begin(barrier(2), at_ms=desk.timeout_ms + more_ms)


# ---- never older than what was published -----------------------------------------------------


def from_nothing(world: World) -> LoadPlanned:
    job = next(iter(world.workloads))
    plan = LoadingPlan(job=job, parallelism=1)
    return LoadPlanned(turn=1, plan=plan, lineage=Lineage(), fingerprint="")


BEFORE = LoadLook(published=1, newest=1, recoverable=True, reset_allowed=False)


def test_a_start_from_nothing_after_a_publish_is_noticed(world: World) -> None:
    job = next(iter(world.workloads))
    with pytest.raises(Violation, match="restored_too_old"):
        world.checks.after_load(job, BEFORE, [from_nothing(world)])


def test_a_start_from_nothing_may_come_too_late_where_it_was_asked_for(world: World) -> None:
    """Another controller has done it meanwhile, and its first epoch is published."""
    job = next(iter(world.workloads))
    world.checks.after_load(job, replace(BEFORE, reset_allowed=True), [from_nothing(world)])
