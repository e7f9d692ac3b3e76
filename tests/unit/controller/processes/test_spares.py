"""Warm spares: a worker that waits takes over a job whose worker died."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.controller.controller import Controller
from headgate.controller.processes import fleet
from headgate.controller.processes.sessions import process_identity
from headgate.core.ids import Generation, JobId
from headgate.core.messages import SpareSettings
from tests.support.waiting import eventually
from tests.unit.controller.support import GRAPH, controller_settings, job_spec
from tests.unit.server.serving import WORKER

PATIENCE_SECONDS = 120.0


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    settings = replace(
        controller_settings(tmp_path),
        warm_spares=1,
        lease_ttl_ms=600,
        worker_command=(sys.executable, str(WORKER)),
    )
    endless = replace(GRAPH.operators[0].spec, table="endless")
    graph = replace(
        GRAPH, operators=(replace(GRAPH.operators[0], spec=endless), *GRAPH.operators[1:])
    )
    made = Controller(settings, lambda spec: graph)
    made.start()
    yield made
    made.close()


def running(controller: Controller, job: JobId, generation: int) -> int:
    """Wait until the generation runs; return its worker's process."""
    controller.wait_for(
        job, lambda s: s.state == "running" and s.generation == generation, PATIENCE_SECONDS
    )
    pid = controller.worker_pid(job)
    assert pid is not None
    return pid


def new_spare(controller: Controller, *, other_than: int = 0) -> int:
    """Wait for a spare; return its process."""
    assert eventually(lambda: set(controller.spare_pids()) - {other_than} != set())
    return controller.spare_pids()[0]


def test_spare_takes_over_when_the_worker_dies(controller: Controller, tmp_path: Path) -> None:
    job = controller.create_job(job_spec(tmp_path))
    worker = running(controller, job, 1)
    spare = new_spare(controller)
    assert spare != worker
    controller.wait_for(job, lambda s: s.committed_epoch >= 1, PATIENCE_SECONDS)
    os.kill(worker, signal.SIGKILL)
    assert running(controller, job, 2) == spare
    log = controller.log_path(job, Generation(2)).read_text()
    assert "spare: ready" in log
    assert f"generation 2 of {job} starts" in log
    epoch = controller.job_status(job).committed_epoch
    controller.wait_for(job, lambda s: s.committed_epoch > epoch, PATIENCE_SECONDS)
    # There is a new one for the next time, and its death is noticed like any worker's.
    again = new_spare(controller, other_than=spare)
    os.kill(spare, signal.SIGKILL)
    assert running(controller, job, 3) == again


def test_closing_ends_the_spares_and_leaves_nothing_behind(
    controller: Controller, tmp_path: Path
) -> None:
    job = controller.create_job(job_spec(tmp_path))
    running(controller, job, 1)
    spare = new_spare(controller)
    controller.close()
    assert process_identity(spare) == ""
    assert controller.spare_pids() == []
    assert not list((tmp_path / "data" / "scratch" / "_spares").glob("*"))


def test_spare_with_other_settings_is_not_used(controller: Controller, tmp_path: Path) -> None:
    first = controller.create_job(job_spec(tmp_path))
    running(controller, first, 1)
    spare = new_spare(controller)
    other = replace(job_spec(tmp_path), spark_conf={"spark.driver.memory": "3g"})
    second = controller.create_job(other)
    assert running(controller, second, 1) != spare
    assert spare in controller.spare_pids()


def test_spare_that_dies_is_replaced_after_a_pause(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "SPARE_PAUSE_SECONDS", 0.5)
    job = controller.create_job(job_spec(tmp_path))
    running(controller, job, 1)
    spare = new_spare(controller)
    os.kill(spare, signal.SIGKILL)
    assert eventually(lambda: spare not in controller.spare_pids())
    new_spare(controller, other_than=spare)
    assert controller.job_status(job).recoveries == 0


def test_what_a_jvm_is_started_with_must_fit() -> None:
    one = SpareSettings(master="local", parallelism=2, spark_conf={"a": "b"})
    assert one.fits(replace(one, parallelism=3, scratch_dir="/x"))
    assert not one.fits(replace(one, master="spark://h:1"))
    assert not one.fits(replace(one, spark_conf={}))
