"""Slots are shared fairly, and a job that does not fit is told so."""

from __future__ import annotations

from headgate.controller.effects.slots import SlotPool
from headgate.core.ids import JobId

A, B, C = JobId("a"), JobId("b"), JobId("c")


def test_job_that_does_not_fit_is_told_how_many_are_free() -> None:
    pool = SlotPool(4)
    assert pool.acquire(A, 3) is None
    assert pool.acquire(B, 2) == "needs 2 slots, 1 of 4 are free"
    assert pool.free() == 1
    pool.release(A)
    assert pool.acquire(B, 2) is None


def test_asking_again_for_what_one_holds_changes_nothing() -> None:
    pool = SlotPool(4)
    for _ in range(3):
        assert pool.acquire(A, 3) is None
    assert pool.free() == 1
    assert pool.acquire(A, 4) is None
    assert pool.free() == 0


def test_small_job_does_not_pass_a_large_one_that_waits() -> None:
    pool = SlotPool(4)
    pool.acquire(A, 3)
    assert pool.acquire(B, 4) is not None
    refused = pool.acquire(C, 1)
    assert refused is not None
    assert "1 jobs are before it" in refused
    pool.release(A)
    assert pool.acquire(C, 1) is not None
    assert pool.acquire(B, 4) is None


def test_job_that_gives_up_waiting_loses_its_place() -> None:
    pool = SlotPool(4)
    pool.acquire(A, 3)
    pool.acquire(B, 4)
    pool.release(B)
    assert pool.acquire(C, 1) is None


def test_job_that_can_never_fit_stands_in_nobodys_way() -> None:
    pool = SlotPool(4)
    refused = pool.acquire(A, 5)
    assert refused is not None
    assert "only 4" in refused
    assert pool.acquire(B, 4) is None


def test_unlimited_pool_grants_everything() -> None:
    pool = SlotPool(None)
    assert pool.acquire(A, 10**6) is None
    assert pool.free() is None
