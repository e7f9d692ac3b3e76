"""Every failpoint, killed and failed, in real processes: the job comes back and is exact.

The cases come from the list of failpoints itself, so a new one is covered the day it is declared,
and one that nobody passes fails the test. One job goes through all cases of one action, one after
the other: each is armed while the generation before it still runs or is being recovered.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from headgate.core.failpoints import FAILPOINTS
from tests.faults.counting import counting, finish
from tests.support.needed import IN_SOAK
from tests.support.stand import Stand

Moment = Literal["running", "recovery", "stop", "rescale"]

# Points that a running job does not pass by itself; any other is expected to be passed there.
MOMENTS: dict[str, Moment] = {
    "recovery.after_identify": "recovery",
    "recovery.after_prepare": "recovery",
    "recovery.after_fence": "recovery",
    "worker.before_register": "recovery",
    "worker.after_restore": "recovery",
    "cleanup.before_delete": "stop",
    "cleanup.middle": "stop",
}
# Points of the final checkpoint and its publish, of a rescale and of its restore.
SOME_COMBINATIONS: list[tuple[Moment, str]] = [
    ("stop", "checkpoint.after_record"),
    ("stop", "worker.middle_of_publish"),
    ("rescale", "checkpoint.after_manifest"),
    ("rescale", "worker.after_restore"),
]


def points_at(moment: Moment) -> list[str]:
    return [point for point in FAILPOINTS if MOMENTS.get(point, "running") == moment]


def rounds() -> Iterator[tuple[str, ...]]:
    """Return what is armed together: after a point that ends the worker, one of the recovery."""
    in_recovery = points_at("recovery")
    for point in points_at("running"):
        ends_worker = point.startswith("worker.")
        yield (point, in_recovery.pop()) if ends_worker and in_recovery else (point,)
    assert not in_recovery, "more points in a recovery than points that lead to one"


def combinations(action: str) -> list[tuple[Moment, str]]:
    """Return the points that are passed once more, during a stop or a rescale."""
    if not IN_SOAK:
        return SOME_COMBINATIONS if action == "kill" else []
    stops: list[tuple[Moment, str]] = [("stop", point) for point in points_at("running")]
    rescales = points_at("running") + points_at("recovery")
    return [*stops, *(("rescale", point) for point in rescales)]


def pass_while_running(stand: Stand, points: tuple[str, ...], action: str) -> None:
    for point in points:
        stand.arm(point, action)
    for point in points:
        stand.wait_until_reached(point)


def pass_while_stopping(stand: Stand, point: str, action: str) -> None:
    stand.wait_for_state("running")
    # Retention has something to delete only when there are more checkpoints than it keeps.
    stand.wait_for_commits(3)
    stand.arm(point, action)
    stand.tell("stop")
    stand.wait_until_reached(point)
    stand.wait_for_state("stopped")
    stand.tell("restart")


def pass_while_rescaling(stand: Stand, point: str, action: str) -> None:
    stand.wait_for_state("running")
    stand.wait_for_commits()
    wanted = 3 if stand.view()["parallelism"] == 2 else 2
    stand.arm(point, action)
    stand.tell("rescale", parallelism=wanted)
    stand.wait_until_reached(point)
    stand.wait_for_state("running")
    assert stand.view()["parallelism"] == wanted


@pytest.mark.timeout(10_000 if IN_SOAK else 3_600)
@pytest.mark.parametrize("action", ["kill", "error"])
def test_failure_at_every_failpoint_leaves_the_output_exact(tmp_path: Path, action: str) -> None:
    stand = counting(tmp_path)
    stand.wait_for_commits()
    try:
        for points in rounds():
            pass_while_running(stand, points, action)
        for point in points_at("stop"):
            pass_while_stopping(stand, point, action)
        for moment, point in combinations(action):
            passing = pass_while_stopping if moment == "stop" else pass_while_rescaling
            passing(stand, point, action)
        finish(stand)
    finally:
        stand.close(signal.SIGKILL)
