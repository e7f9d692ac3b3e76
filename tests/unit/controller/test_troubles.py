"""What is waited for outside is said once; and waiting for space costs a job nothing."""

from __future__ import annotations

import errno
import logging
import sqlite3
from dataclasses import replace

import pytest
from sqlalchemy.exc import OperationalError

from headgate.controller.rules.failure import recover_or_fail
from headgate.controller.rules.generation import exited_error
from headgate.controller.rules.states.recovering import Recovering
from headgate.controller.troubles import REPEAT_SECONDS, Troubles
from headgate.core.errors import ErrorDomain, StorageError, error_info
from headgate.core.ids import Generation
from headgate.core.space import NO_SPACE
from headgate.core.spark_errors import error_of_task
from headgate.server.alarms import Pulse, find_alarms, waiting
from headgate.storage.translation import translated
from tests.unit.controller.job_under_rules import JobUnderRules
from tests.unit.controller.support import JOB


def test_one_trouble_of_many_threads_is_one_line_and_then_one_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    troubles = Troubles("/state/jobs.db", clock=lambda: now[0])
    full = OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            troubles.failed("the controller's chores", full)
            troubles.failed("the renewal of leases", full)
            now[0] += 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "no space left on device: /state/jobs.db; waiting: free some space, it goes on by itself"
    )
    now[0] += REPEAT_SECONDS
    assert troubles.tell(said)


def test_what_nobody_expected_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    try:
        raise ValueError("a defect")
    except ValueError as error:
        troubles.failed("the controller's chores", error)
    assert caplog.records[0].exc_info is not None


def test_job_that_waits_for_space_spends_no_restart_however_long_it_takes() -> None:
    world = JobUnderRules().to_running()
    full = error_info(OSError(errno.ENOSPC, "No space left on device", "/state/x"))
    assert (full.code, full.domain, full.message) == (
        NO_SPACE,
        ErrorDomain.EXTERNAL,
        "no space left on device: /state/x",
    )
    facts = world.facts
    for tries in range(1, 200):
        step = recover_or_fail(facts, full, now_ms=1_000)
        assert isinstance(step.next, Recovering)
        facts = step.next.facts
        assert (facts.restarts_used, facts.same_failures) == (0, tries)
        assert step.next.not_before_ms <= 1_000 + 15_000
    assert step.reason.endswith("waiting: free some space, it goes on by itself")
    # Another error begins to count from nothing.
    other = replace(full, code="worker_lost", message="gone")
    assert recover_or_fail(facts, other, now_ms=1_000).next.facts.restarts_used == 1


def test_full_device_is_known_whoever_says_so() -> None:
    with pytest.raises(StorageError) as raised, translated("write", "a/b", where="/state"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (raised.value.code, raised.value.message) == (
        NO_SPACE,
        "no space left on device: /state",
    )
    spill = RuntimeError("java.io.IOException: No space left on device\n\tat org.apache.spark")
    assert error_of_task(spill).code == NO_SPACE
    tail = "OSError: [Errno 28] No space left on device"
    assert exited_error(Generation(1), 1, tail).code == NO_SPACE
    # The words of somebody's data are no error.
    row = 'cannot read {"message": "No space left on device"}'
    assert exited_error(Generation(1), 1, row).code == "worker_exited"


def test_job_that_waits_is_an_alarm_until_it_waits_no_longer() -> None:
    pulse = waiting(Pulse(), "no space left on device: /state", 5)
    (alarm,) = find_alarms(JOB, pulse, now_ms=6, stalled_after_ms=60_000)
    assert (alarm.kind, alarm.since_ms) == ("waiting", 5)
    assert find_alarms(JOB, waiting(pulse, "", 7), now_ms=8, stalled_after_ms=60_000) == ()
