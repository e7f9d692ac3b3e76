"""Where a worker goes, and what it is told when it goes nowhere."""

from __future__ import annotations

import pytest

from headgate.controller.nodes.placement import (
    Here,
    Need,
    Offer,
    OnNode,
    Waits,
    choose,
    local_folder,
    need_of,
)
from headgate.core.errors import UserError


def offer(name: str, slots: int, free: int, **changes: object) -> Offer:
    return Offer(**{"name": name, "slots": slots, "free": free, "connected": True, **changes})  # type: ignore[arg-type]


A, B = offer("a", 4, 2), offer("b", 8, 5)
LOST = offer("c", 8, 0, connected=False)


def test_node_with_most_free_slots_is_chosen() -> None:
    assert choose(Need(2), [A, B], "auto") == OnNode("b")
    assert choose(Need(2), [A, offer("b", 2, 2)], "nodes") == OnNode("a")


def test_lost_node_is_not_chosen() -> None:
    assert choose(Need(1), [offer("a", 4, 4, connected=False), B], "auto") == OnNode("b")


def test_without_nodes_it_is_here_unless_nodes_are_demanded() -> None:
    assert choose(Need(2), [], "auto") == Here()
    assert choose(Need(2), [], "here") == Here()
    waits = choose(Need(2), [], "nodes")
    assert isinstance(waits, Waits)
    assert "headgate node --join" in waits.reason


def test_here_means_here() -> None:
    assert choose(Need(1), [B], "here") == Here()


def test_job_that_does_not_fit_says_what_it_waits_for() -> None:
    waits = choose(Need(6), [A, B, LOST], "auto")
    assert waits == Waits(
        "needs 6 slots; node a has 2 of 4 free, node b has 5 of 8 free, node c is lost",
        frozenset({"b", "c"}),
    )


def test_job_that_fits_nowhere_is_told_the_remedy_and_stands_in_nobodys_way() -> None:
    waits = choose(Need(9), [A, B], "auto")
    assert isinstance(waits, Waits)
    assert "lower its parallelism, or join a larger node" in waits.reason
    assert waits.for_nodes == frozenset()


def test_nodes_that_earlier_jobs_wait_for_are_left_to_them() -> None:
    assert choose(Need(1), [A, B], "auto", reserved={"b"}) == OnNode("a")
    waits = choose(Need(1), [A, B], "auto", reserved={"a", "b"})
    assert isinstance(waits, Waits)
    assert "jobs before it" in waits.reason


def test_state_in_a_folder_needs_a_node_that_shares_it() -> None:
    need = Need(1, "/mnt/lake/state")
    sharing = offer("d", 4, 1, shares=("/mnt/lake",))
    assert choose(need, [B, sharing], "nodes") == OnNode("d")
    assert choose(need, [B], "auto") == Here()
    assert choose(Need(1, "/mnt/lakes"), [sharing], "auto") == Here()
    with pytest.raises(UserError, match=r"--shares /mnt/lake/state") as refused:
        choose(need, [A, B], "nodes")
    assert refused.value.code == "state_not_shared"


def test_job_on_a_cluster_needs_a_slot_for_its_driver_only() -> None:
    assert need_of(master="local[4]", parallelism=4, state_url="s3://b/p") == Need(4)
    assert need_of(master="local", parallelism=4, state_url="s3://b/p") == Need(4)
    assert need_of(master="spark://h:7077", parallelism=4, state_url="s3://b/p") == Need(1)


def test_local_folders_are_told_from_stores() -> None:
    assert local_folder("/var/state") == "/var/state"
    assert local_folder("file:///var/my%20state") == "/var/my state"
    assert local_folder("s3://bucket/prefix?region=x") is None
