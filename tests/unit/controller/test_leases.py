"""The leases of the jobs that are driven here are renewed, whatever else blocks."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from headgate.controller.controller import Controller
from headgate.controller.store.tables import leases, open_engine
from headgate.core.ids import Generation, JobId
from tests.support.waiting import eventually
from tests.unit.controller.support import GRAPH, QUICK, controller_settings, job_spec

PATIENCE_SECONDS = 60.0
ROWS = 100_000
# Without checkpoints a job stores nothing, so that only the renewal can find its lease lost.
QUIET = replace(QUICK, checkpoint_interval_ms=3_600_000)


@pytest.fixture
def database(tmp_path: Path) -> sa.Engine:
    return open_engine(str(tmp_path / "jobs.db"))


def expiry(database: sa.Engine, job: JobId) -> int:
    with database.begin() as connection:
        query = sa.select(leases.c.expires_ms).where(leases.c.job == job)
        return int(connection.execute(query).scalar_one())


def steal(database: sa.Engine, job: JobId) -> None:
    """Hold the lease as another controller would that had waited for its end."""
    with database.begin() as connection:
        connection.execute(
            sa.update(leases)
            .where(leases.c.job == job)
            .values(holder="other|1|1|x", number=leases.c.number + 1, expires_ms=2**53)
        )


def test_worker_that_does_not_die_lets_no_other_job_s_lease_lapse(
    tmp_path: Path, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(controller_settings(tmp_path, rows=ROWS), lease_ttl_ms=900)
    controller = Controller(settings, lambda spec: GRAPH)
    true_kill = controller._fleet.kill
    killing, dead = threading.Event(), threading.Event()

    def slow_kill(job: JobId, generation: Generation) -> None:
        if job == stolen:
            killing.set()
            assert dead.wait(PATIENCE_SECONDS)
        true_kill(job, generation)

    controller.start()
    try:
        stolen, other = (controller.create_job(job_spec(tmp_path, limits=QUIET)) for _ in range(2))
        for job in (stolen, other):
            controller.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
        monkeypatch.setattr(controller._fleet, "kill", slow_kill)
        steal(database, stolen)
        assert killing.wait(PATIENCE_SECONDS)
        # Three times in a row, while the killing lasts.
        for _ in range(3):
            before = expiry(database, other)
            assert eventually(lambda b=before: expiry(database, other) > b, patience=10)
        assert controller.job_status(other).driven_here
        dead.set()
        controller.wait_for(stolen, lambda s: not s.driven_here, PATIENCE_SECONDS)
    finally:
        dead.set()
        controller.close()
        database.dispose()
