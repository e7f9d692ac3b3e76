"""Slots over a controller and its nodes: what is reserved, and who comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate
from headgate.controller.clock import SteadyClock
from headgate.controller.effects.slots import SlotPool
from headgate.controller.nodes.fleet import Placements
from headgate.controller.nodes.hosted import HostedWorkers
from headgate.controller.nodes.messages import Hello
from headgate.controller.nodes.placement import Workers
from headgate.controller.nodes.registry import Nodes
from headgate.controller.rules.spec import JobSpec
from headgate.core.errors import UserError
from headgate.core.ids import Generation, JobId
from headgate.core.messages import SpareSettings
from tests.unit.controller.nodes.wire import Wire

ONE, TWO, THREE = JobId("one"), JobId("two"), JobId("three")


class Yard:
    def __init__(self, folder: Path, *, mode: Workers = "auto", total: int | None = None) -> None:
        self.nodes = Nodes(
            lambda job, event: None,
            SteadyClock(),
            timeout_ms=15_000,
            memory=folder / "nodes.json",
        )
        self.spec = JobSpec(name="p", sql="SELECT 1", state_url="s3://bucket", master="local")
        self.placements = Placements(SlotPool(total), self.nodes, mode, lambda job: self.spec)

    def join(self, name: str, slots: int, *, taken: int = 0) -> HostedWorkers:
        hello = Hello(
            version=headgate.__version__,
            node=name,
            instance=name,
            host="h",
            slots=slots,
            taken=taken,
        )
        return self.nodes.join(hello, Wire(), "")

    def place(self, job: JobId) -> str | None:
        session = self.placements.place_of(job).session
        return None if session is None else session.node


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_without_nodes_the_worker_is_here(yard: Yard) -> None:
    assert yard.placements.acquire(ONE, 2) is None
    assert yard.place(ONE) is None


def test_slots_are_reserved_until_they_are_released(yard: Yard) -> None:
    yard.join("a", 4)
    for _ in range(2):
        assert yard.placements.acquire(ONE, 3) is None
    assert yard.place(ONE) == "a"
    assert yard.placements.acquire(TWO, 2) == "needs 2 slots; node a has 1 of 4 free"
    yard.placements.release(ONE)
    assert yard.placements.acquire(TWO, 2) is None


def test_worker_is_counted_once_and_until_it_is_gone(yard: Yard) -> None:
    session = yard.join("a", 4)
    yard.placements.acquire(ONE, 2)
    needs = SpareSettings(master="local", parallelism=2)
    session.start(ONE, Generation(1), "t", 2, needs)
    assert yard.placements.acquire(TWO, 2) is None
    yard.placements.release(TWO)
    # Its job has given its slots back, but the process may still be there.
    yard.placements.release(ONE)
    assert yard.placements.acquire(TWO, 3) == "needs 3 slots; node a has 2 of 4 free"


def test_slots_that_other_controllers_use_are_not_ours(yard: Yard) -> None:
    yard.join("a", 4, taken=3)
    assert yard.placements.acquire(ONE, 2) == "needs 2 slots; node a has 1 of 4 free"


def test_small_jobs_do_not_pass_a_large_one_for_ever(yard: Yard) -> None:
    yard.join("a", 4)
    assert yard.placements.acquire(ONE, 2) is None
    assert yard.placements.acquire(TWO, 4) is not None
    refused = yard.placements.acquire(THREE, 1)
    assert refused is not None
    assert "jobs before it" in refused
    # A node that the large one cannot use is not kept for it.
    yard.join("b", 2)
    assert yard.placements.acquire(THREE, 1) is None
    assert yard.place(THREE) == "b"
    yard.placements.release(ONE)
    assert yard.placements.acquire(TWO, 4) is None


def test_limit_of_the_controller_counts_on_nodes_too(tmp_path: Path) -> None:
    yard = Yard(tmp_path, total=3)
    yard.join("a", 8)
    assert yard.placements.acquire(ONE, 2) is None
    assert yard.placements.acquire(TWO, 2) == "needs 2 slots, 1 of 3 are free"
    assert yard.place(TWO) is None


def test_lost_node_is_waited_for_before_the_worker_is_here(yard: Yard) -> None:
    session = yard.join("a", 4)
    yard.nodes._lose(session, "a test")
    assert yard.placements.acquire(ONE, 2) == "needs 2 slots; node a is lost"


def test_state_that_no_node_shares_is_refused_where_nodes_are_demanded(tmp_path: Path) -> None:
    yard = Yard(tmp_path, mode="nodes")
    yard.spec = JobSpec(name="p", sql="SELECT 1", state_url="/var/state")
    yard.join("a", 4)
    with pytest.raises(UserError, match="no node"):
        yard.placements.acquire(ONE, 1)
