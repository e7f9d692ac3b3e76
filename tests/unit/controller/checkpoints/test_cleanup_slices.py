"""A cleanup runs in slices: a checkpoint that falls due waits for the slice at hand, no longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.controller.checkpoints import coordinator
from headgate.controller.checkpoints.coordinator import CLEANUP_SLICE_LEAST_MS
from headgate.controller.rules.actions import Action, RunCleanup, SendToWorker
from headgate.controller.rules.events import CleanupDone, CleanupFailed
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import CleanupNote
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.step import step
from headgate.core.errors import ErrorInfo
from headgate.core.messages import Barrier
from tests.unit.controller.checkpoints.test_coordinator import Desk
from tests.unit.controller.job_under_rules import JobUnderRules

EVERY = Limits(cleanup_every_checkpoints=1, cleanup_interval_ms=0)


def slice_of(actions: list[Action]) -> RunCleanup:
    (action,) = actions
    assert isinstance(action, RunCleanup)
    return action


def is_barrier(actions: list[Action]) -> bool:
    return any(isinstance(a, SendToWorker) and isinstance(a.message, Barrier) for a in actions)


def end_slice(desk: Desk, *, finished: bool) -> None:
    desk.cleaning, desk.cleanup_unfinished = False, not finished


def after_a_checkpoint(**limits: object) -> Desk:
    desk = Desk(limits=replace(EVERY, **limits))  # type: ignore[arg-type]
    while not is_barrier(desk.poll(after_ms=10_000)):
        end_slice(desk, finished=True)
    desk.checkpoint()
    return desk


def test_slice_is_a_tenth_of_the_interval() -> None:
    assert slice_of(after_a_checkpoint().poll()).time_ms == 1_000
    quick = after_a_checkpoint(checkpoint_interval_ms=100)
    assert slice_of(quick.poll()).time_ms == CLEANUP_SLICE_LEAST_MS
    limited = after_a_checkpoint(cleanup_time_ms=300)
    assert slice_of(limited.poll()).time_ms == 300


def test_unfinished_cleanup_goes_on_at_once_while_no_checkpoint_is_due() -> None:
    desk = after_a_checkpoint()
    for _ in range(5):
        slice_of(desk.poll(after_ms=500))
        end_slice(desk, finished=False)
        assert coordinator.next_deadline(desk.c, desk.view) <= desk.now_ms  # type: ignore[operator]
    slice_of(desk.poll())
    end_slice(desk, finished=True)
    assert desk.poll() == []
    assert coordinator.next_deadline(desk.c, desk.view) == desk.c.last_started_ms + 10_000


def test_checkpoint_that_falls_due_goes_before_the_next_slice() -> None:
    desk = after_a_checkpoint()
    slice_of(desk.poll(after_ms=9_500))
    assert desk.poll(after_ms=500) == [], "nothing begins while a slice runs"
    end_slice(desk, finished=False)
    assert is_barrier(desk.poll())


def test_cleanup_gets_a_slice_after_every_checkpoint_if_one_is_always_due() -> None:
    desk = after_a_checkpoint(checkpoint_interval_ms=0, cleanup_every_checkpoints=100)
    desk.cleanup_unfinished = True
    for _ in range(5):
        slice_of(desk.poll(after_ms=1))
        end_slice(desk, finished=False)
        assert is_barrier(desk.poll(after_ms=CLEANUP_SLICE_LEAST_MS))
        desk.checkpoint()


def test_final_checkpoint_does_not_wait_for_the_next_slice() -> None:
    desk = after_a_checkpoint()
    slice_of(desk.poll())
    end_slice(desk, finished=False)
    desk.c = replace(desk.c, final_wanted=True)
    assert is_barrier(desk.poll())


@pytest.mark.verify
@given(
    interval_ms=st.sampled_from([0, 200, 1_000, 10_000]),
    slices=st.integers(0, 600),
    rest_ms=st.integers(0, 9),
    checkpoint_ms=st.integers(1, 2_000),
)
def test_large_cleanup_ends_and_no_checkpoint_waits_for_more_than_a_slice(
    interval_ms: int, slices: int, rest_ms: int, checkpoint_ms: int
) -> None:
    desk = after_a_checkpoint(checkpoint_interval_ms=interval_ms)
    least_ms = max(CLEANUP_SLICE_LEAST_MS, interval_ms // 10)
    left_ms = slices * least_ms + rest_ms
    # One checkpoint, at most, goes before each slice.
    for _ in range(2 * (slices + 1)):
        due_ms = coordinator.next_deadline(desk.c, desk.view)
        assert due_ms is not None
        desk.now_ms = max(desk.now_ms, due_ms)
        actions = desk.poll()
        if is_barrier(actions):
            desk.now_ms += checkpoint_ms
            desk.checkpoint()
            continue
        began_ms, took_ms = desk.now_ms, min(left_ms, slice_of(actions).time_ms)
        desk.now_ms += took_ms
        left_ms -= took_ms
        held_ms = coordinator.held_up_ms(desk.c, desk.view, since_ms=began_ms, now_ms=desk.now_ms)
        assert held_ms <= least_ms
        end_slice(desk, finished=not left_ms)
        if not left_ms:
            return
    raise AssertionError("the cleanup starves")


# ---- what is remembered of it ----------------------------------------------------------------


def running_and_cleaning() -> Running:
    state = JobUnderRules().to_running().state
    assert isinstance(state, Running)
    idle = replace(Desk().c, checkpoints_since_cleanup=0)
    facts = replace(state.facts, cleaning_since_ms=9_800)
    return replace(state, facts=facts, running=replace(state.running, coordinator=idle))


def noted(state: Running, event: CleanupDone | CleanupFailed, now_ms: int) -> CleanupNote:
    done = step(state, event, now_ms)
    assert done.next.facts.cleaning_since_ms is None
    (note,) = [note for note in done.notes if isinstance(note, CleanupNote)]
    return note


def test_history_says_how_long_a_checkpoint_waited() -> None:
    state = running_and_cleaning()
    assert noted(state, CleanupDone(), 9_900).held_up_ms == 0
    # It was due at 10,000.
    late = noted(state, CleanupDone(finished=False), 10_700)
    assert (late.held_up_ms, late.duration_ms, late.finished) == (700, 900, False)


def test_only_a_cleanup_whose_time_was_up_goes_on() -> None:
    state = running_and_cleaning()
    for event, unfinished in (
        (CleanupDone(finished=False), True),
        (CleanupDone(), False),
        (CleanupFailed(error=ErrorInfo(message="storage is away")), False),
    ):
        assert step(state, event, 9_900).next.facts.cleanup_unfinished == unfinished
