"""The whole controller over the real link with real processes (without Spark)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.controller import driving
from headgate.controller.announcements import Announcement, Noted
from headgate.controller.rules.events import StopRequested
from headgate.controller.rules.notes import SavepointNote
from headgate.controller.runner import CommandReceipt, JobRunner
from headgate.core.errors import ExternalError, UserError
from headgate.core.ids import JobId
from tests.support.waiting import eventually
from tests.unit.controller.support import is_exact, job_spec, new_controller, published

PATIENCE_SECONDS = 120.0
ROWS = 20_000


def test_bounded_job_runs_to_its_end_and_publishes_everything(tmp_path: Path) -> None:
    controller = new_controller(tmp_path, rows=300)
    controller.start()
    try:
        job = controller.create_job(job_spec(tmp_path))
        status = controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
        history = controller.job_history(job)
    finally:
        controller.close()
    assert status.state == "finished"
    assert is_exact(published(tmp_path), 300)
    moves = [(e.transition.before, e.transition.after) for e in history if e.transition]
    assert moves == [
        ("created", "compiling"),
        ("compiling", "scheduling"),
        ("scheduling", "running"),
        ("running", "finishing"),
        ("finishing", "finished"),
    ]


def test_worker_killed_twice_recovers_with_exact_output(tmp_path: Path) -> None:
    controller = new_controller(tmp_path, rows=6_000)
    controller.start()
    try:
        job = controller.create_job(job_spec(tmp_path))
        for kills in (1, 2):
            status = controller.wait_for(
                job,
                lambda s, k=kills: s.state == "running" and s.committed_epoch >= 2 * k,
                PATIENCE_SECONDS,
            )
            pid = controller.worker_pid(job)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            controller.wait_for(
                job, lambda s, g=status.generation: s.generation > g, PATIENCE_SECONDS
            )
        status = controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
        phases = [e.phase.phase for e in controller.job_history(job) if e.phase]
    finally:
        controller.close()
    assert status.state == "finished"
    assert status.recoveries == 2
    assert is_exact(published(tmp_path), 6_000)
    five = ["identify", "prepare", "restart_workers", "restore", "resume"]
    assert phases == five + five


@pytest.mark.parametrize("rows", [2_000])
def test_stop_with_checkpoint_then_resume_at_another_parallelism(tmp_path: Path, rows: int) -> None:
    controller = new_controller(tmp_path, rows=rows)
    controller.start()
    try:
        job = controller.attach_job(job_spec(tmp_path))
        controller.wait_for(job, lambda s: s.committed_epoch >= 1, PATIENCE_SECONDS)
        controller.stop_job(job, "checkpoint")
        stopped = controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
    finally:
        controller.close()
    assert stopped.state == "stopped"
    assert published(tmp_path)[-1][1] < rows

    again = new_controller(tmp_path, rows=rows, rate=100)
    again.start()
    try:
        assert again.attach_job(job_spec(tmp_path, parallelism=3)) == job
        status = again.wait_for(job, lambda s: s.state == "finished", PATIENCE_SECONDS)
    finally:
        again.close()
    assert status.parallelism == 3
    assert is_exact(published(tmp_path), rows)


def test_killed_controller_is_replaced_and_the_output_is_exact(tmp_path: Path) -> None:
    """SIGKILL to a whole controller process, again and again, in the middle of a job."""
    for kills in range(3):
        process = run_in_process(tmp_path)
        assert eventually(lambda k=kills: len(list_published(tmp_path)) >= 2 * (k + 1))
        process.kill()
        process.wait()
    # Nothing of the dead controllers is left that could disturb the next one.
    last = new_controller(tmp_path, rows=ROWS, rate=200)
    last.start(take_up=False)
    try:
        job = last.attach_job(job_spec(tmp_path))
        status = last.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
    finally:
        last.close()
    assert status.state == "finished"
    # One for each controller: what is attached is started once, whatever it was doing.
    assert status.generation == 4
    assert is_exact(published(tmp_path), ROWS)


def test_lost_database_does_not_lose_the_job(tmp_path: Path) -> None:
    first = new_controller(tmp_path, rows=ROWS)
    first.start()
    job = first.attach_job(job_spec(tmp_path))
    first.wait_for(job, lambda s: s.committed_epoch >= 2, PATIENCE_SECONDS)
    first.close()
    for file in tmp_path.glob("jobs.db*"):
        file.unlink()
    second = new_controller(tmp_path, rows=ROWS, rate=200)
    second.start()
    try:
        assert second.attach_job(job_spec(tmp_path)) == job
        status = second.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
    finally:
        second.close()
    assert status.state == "finished"
    assert status.generation == 2
    assert is_exact(published(tmp_path), ROWS)


def test_two_controllers_on_one_database_do_not_both_drive_a_job(tmp_path: Path) -> None:
    first, second = new_controller(tmp_path, rows=ROWS), new_controller(tmp_path, rows=ROWS)
    first.start()
    second.start()
    try:
        job = first.create_job(job_spec(tmp_path))
        first.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
        assert not second.job_status(job).driven_here
        with pytest.raises(ExternalError, match="is being run by process"):
            second.stop_job(job)
        # When the first one lets go, the second takes the job up by itself.
        first.close()
        second.wait_for(job, lambda s: s.driven_here, PATIENCE_SECONDS)
        second.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
        second.stop_job(job)
        second.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
    finally:
        second.close()


def test_several_jobs_side_by_side_share_the_slots(tmp_path: Path) -> None:
    controller = new_controller(tmp_path, rows=200, slots=3)
    controller.start()
    try:
        jobs = [controller.create_job(job_spec(tmp_path)) for _ in range(3)]
        waited = False
        while not all(s.terminal for s in controller.job_statuses()):
            statuses = controller.job_statuses()
            holding = [s for s in statuses if s.state in ("running", "finishing")]
            assert len(holding) <= 1, "two slots each, three in all"
            waited = waited or any("needs 2 slots" in s.doing for s in statuses)
            controller.wait_for(jobs[0], lambda s: True, PATIENCE_SECONDS)
    finally:
        controller.close()
    assert waited


def test_rescale_and_savepoint_of_a_running_job(tmp_path: Path) -> None:
    controller = new_controller(tmp_path, rows=ROWS)
    controller.start()
    answers: list[SavepointNote] = []
    controller.subscribe(
        lambda n: (
            answers.append(n.note)
            if isinstance(n, Noted) and isinstance(n.note, SavepointNote)
            else None
        )
    )
    try:
        job = controller.create_job(job_spec(tmp_path))
        controller.wait_for(job, lambda s: s.committed_epoch >= 1, PATIENCE_SECONDS)
        controller.savepoint(job, "before")
        assert eventually(lambda: bool(answers))
        controller.rescale_job(job, 3)
        controller.wait_for(
            job, lambda s: s.state == "running" and s.generation == 2, PATIENCE_SECONDS
        )
        assert controller.job_status(job).parallelism == 3
        controller.stop_job(job)
        controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
    finally:
        controller.close()
    assert [(a.name, a.failure) for a in answers] == [("before", None)]
    ranges = published(tmp_path)
    assert is_exact(ranges, ranges[-1][1])


def test_stopped_job_that_is_attached_again_is_under_way_at_once(tmp_path: Path) -> None:
    controller = new_controller(tmp_path, rows=ROWS)
    controller.start(take_up=False)
    try:
        job = controller.attach_job(job_spec(tmp_path))
        controller.stop_job(job, "force")
        assert controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS).state == "stopped"
        # Long enough for the controller to have let go of the job that had ended.
        assert eventually(lambda: not controller.job_status(job).driven_here)
        for _ in range(5):
            controller.attach_job(job_spec(tmp_path))
            assert not controller.job_status(job).terminal
            controller.stop_job(job, "force")
            controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
        controller.delete_job(job)
        with pytest.raises(UserError, match="no job"):
            controller.job_status(job)
    finally:
        controller.close()


def test_controller_that_takes_nothing_up_leaves_other_jobs_alone(tmp_path: Path) -> None:
    first = new_controller(tmp_path, rows=ROWS)
    first.start()
    job = first.create_job(job_spec(tmp_path))
    first.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
    first.close()
    second = new_controller(tmp_path, rows=ROWS)
    second.start(take_up=False)
    try:
        own = second.attach_job(job_spec(tmp_path))
        second.wait_for(own, lambda s: s.committed_epoch >= 2, PATIENCE_SECONDS)
        assert own != job
        assert not second.job_status(job).driven_here
    finally:
        second.close()


def test_subscriber_that_fails_stops_no_job(tmp_path: Path) -> None:
    def broken(announcement: Announcement) -> None:
        raise ZeroDivisionError

    controller = new_controller(tmp_path, rows=100)
    controller.subscribe(broken)
    controller.start()
    try:
        job = controller.create_job(job_spec(tmp_path))
        status = controller.wait_for(job, lambda s: s.terminal, PATIENCE_SECONDS)
    finally:
        controller.close()
    assert status.state == "finished"
    assert status.recoveries == 0


def test_stop_that_may_not_be_stored_is_not_answered_as_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, unanswered = (CommandReceipt(StopRequested(mode="force")) for _ in range(2))
    lost.lost = True
    lost.done.set()
    controller = new_controller(tmp_path, rows=ROWS)
    controller.start()
    try:
        job = controller.create_job(job_spec(tmp_path))
        monkeypatch.setattr(driving, "COMMAND_TIMEOUT_SECONDS", 0.0)
        for answer, code in ((lost, "command_lost"), (unanswered, "timeout")):
            monkeypatch.setattr(JobRunner, "command", lambda self, event, a=answer: a)
            with pytest.raises(ExternalError) as refused:
                controller.stop_job(job)
            assert refused.value.code == code
    finally:
        controller.close()


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    controller = new_controller(tmp_path)
    try:
        with pytest.raises(UserError, match="no job"):
            controller.stop_job(JobId("nobody"))
        with pytest.raises(UserError, match="either"):
            controller.create_job(replace(job_spec(tmp_path), sql=None))
        with pytest.raises(UserError, match="parallelism"):
            controller.create_job(job_spec(tmp_path, parallelism=0))
        with pytest.raises(UserError, match="URL"):
            controller.create_job(replace(job_spec(tmp_path), state_url="nowhere://x"))
    finally:
        controller.close()


# ---- helpers ---------------------------------------------------------------------------------

CONTROLLER_PROCESS = """
import sys, time
from pathlib import Path
from tests.unit.controller.support import job_spec, new_controller
folder = Path(sys.argv[1])
controller = new_controller(folder, rows=int(sys.argv[2]))
controller.start(take_up=False)
controller.attach_job(job_spec(folder))
time.sleep(600)
"""


def run_in_process(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CONTROLLER_PROCESS, str(folder), str(ROWS)])


def list_published(folder: Path) -> list[Path]:
    return list((folder / "out").glob("*.json"))
