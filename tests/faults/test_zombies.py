"""Processes that stand still for too long and wake up when others have taken over."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.counting import SETTINGS, counting, finish
from tests.support.stand import Stand

LOW_TIMEOUT = SETTINGS.replace("[job]\n", "[job]\nheartbeat_timeout = '8s'\n")


@pytest.mark.timeout(1_800)
def test_stopped_worker_and_stopped_controller_are_replaced_and_change_nothing(
    tmp_path: Path,
) -> None:
    first = counting(tmp_path, settings=LOW_TIMEOUT)
    second: Stand | None = None
    try:
        first.wait_for_commits()
        replace_stopped_worker(first)
        second = take_over_from_stopped_controller(first)
        finish(second)
        assert first.close() == 0, first.log()
        first.wait_until_gone()
    finally:
        for stand in (first, second):
            if stand is not None:
                stand.close(signal.SIGKILL)


def replace_stopped_worker(stand: Stand) -> None:
    """A worker that is silent for longer than the timeout is killed, and another one works."""
    (worker,) = stand.workers()
    generation = stand.view()["generation"]
    os.kill(worker, signal.SIGSTOP)
    stand.wait("another generation", lambda: stand.view()["generation"] > generation)
    stand.wait_for_commits()
    errors = stand.request("GET", f"/jobs/{stand.job}/errors")
    assert any(error["error"]["code"] == "worker_lost" for error in errors), errors
    assert worker not in stand.workers()


def take_over_from_stopped_controller(first: Stand) -> Stand:
    """Nobody can kill these: they wake up as zombies beside the generation that replaced them."""
    stopped = [first.process.pid, *first.workers()]
    generation = first.view()["generation"]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    second = Stand(first.folder, LOW_TIMEOUT)
    second.job = first.job
    second.wait("another generation", lambda: second.view()["generation"] > generation)
    second.wait_for_commits()
    # The worker first: for a while nobody keeps it from going on with what it was doing.
    for pid in reversed(stopped):
        os.kill(pid, signal.SIGCONT)
        second.wait_for_commits()
    # Its controller finds that the job is another one's, and ends it.
    second.wait("the end of the zombie", lambda: not first.workers())
    assert first.process.poll() is None, first.log()
    assert second.view()["driven_here"]
    return second
