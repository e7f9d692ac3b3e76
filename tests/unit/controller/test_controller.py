"""The whole controller over the real link with real processes (without Spark)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.unit.controller.support import is_exact, job_spec, new_controller, published

PATIENCE_SECONDS = 60.0


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
