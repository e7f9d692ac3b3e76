"""When a running job is alarming: a pure rule over observations."""

from __future__ import annotations

from headgate.core.ids import Generation, JobId
from headgate.core.messages import Progress
from headgate.server.alarms import Pulse, committed, entered, find_alarms, progressed

JOB = JobId("orders")
FIRST = Generation(1)


def kinds(pulse: Pulse, now_ms: int) -> list[str]:
    return [a.kind for a in find_alarms(JOB, pulse, now_ms=now_ms, stalled_after_ms=1_000)]


def running(at_ms: int = 0, **changes: int) -> Pulse:
    return entered(Pulse(interval_ms=100, **changes), "running", at_ms)


def test_rows_that_wait_and_are_not_read_are_alarming() -> None:
    pulse = progressed(running(), FIRST, Progress(batches=1, rows_in=5, lag_rows=3), 500)
    pulse = committed(pulse, 1_400)
    assert kinds(pulse, 1_499) == []
    # The same words again are no progress.
    pulse = progressed(pulse, FIRST, Progress(batches=1, rows_in=5, lag_rows=3), 1_490)
    assert kinds(pulse, 1_500) == ["no_progress"]
    (alarm,) = find_alarms(JOB, pulse, now_ms=2_000, stalled_after_ms=1_000)
    assert (alarm.since_ms, alarm.message) == (
        500,
        "3 rows are waiting and none were read for 1.5 s",
    )


def test_job_that_gets_on_or_has_nothing_to_read_is_not_alarming() -> None:
    idle = committed(progressed(running(), FIRST, Progress(batches=1, lag_rows=0), 10), 9_000)
    unknown = committed(progressed(running(), FIRST, Progress(batches=1), 10), 9_000)
    assert kinds(idle, 9_500) == kinds(unknown, 9_500) == []
    slow = progressed(running(), FIRST, Progress(batches=1, rows_in=1, lag_rows=9), 10)
    slow = progressed(slow, FIRST, Progress(batches=2, rows_in=1, lag_rows=9), 9_000)
    assert kinds(committed(slow, 9_000), 9_500) == []


def test_new_generation_is_progress() -> None:
    pulse = progressed(running(), FIRST, Progress(batches=1, rows_in=5, lag_rows=3), 10)
    pulse = progressed(pulse, Generation(2), Progress(batches=1, rows_in=5, lag_rows=3), 5_000)
    assert kinds(committed(pulse, 5_000), 5_500) == []


def test_missing_checkpoints_are_alarming_after_the_interval_too() -> None:
    assert kinds(running(), 1_099) == []
    assert kinds(running(), 1_100) == ["no_checkpoint"]
    assert kinds(committed(running(), 800), 1_899) == []
    assert kinds(committed(running(), 800), 1_900) == ["no_checkpoint"]


def test_job_that_has_nothing_to_checkpoint_owes_none() -> None:
    pulse = progressed(running(), FIRST, Progress(batches=1, is_idle=True), 5_000)
    assert kinds(pulse, 6_000) == []
    busy = progressed(pulse, FIRST, Progress(batches=2), 5_500)
    assert kinds(busy, 6_099) == []
    assert kinds(busy, 6_100) == ["no_checkpoint"]


def test_time_before_the_job_ran_does_not_count() -> None:
    again = entered(committed(running(), 100), "running", 50_000)
    assert kinds(again, 50_900) == []
    assert kinds(again, 51_100) == ["no_checkpoint"]


def test_job_that_does_not_run_is_the_controllers_business() -> None:
    assert kinds(entered(running(), "recovering", 10), 10**9) == []
    assert kinds(Pulse(), 10**9) == []
