"""Who runs the jobs of a state store here: asked of the database that `run` and `serve` share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from headgate.components import absolute_state_url, local_data_dir
from headgate.config import load_config
from headgate.controller.identity import is_dead_holder, lease_holder
from headgate.controller.store.jobs import JobStore
from headgate.controller.store.leases import Driver, LeaseHeld
from headgate.core.errors import ExternalError, UserError
from headgate.core.ids import JobId

# To delete a row takes no longer.
_LEASE_MS = 10_000


def running_jobs(state_dir: str | None) -> dict[JobId, str]:
    """Return the jobs that are being run, with who runs each.

    Known are those of `headgate run` on this machine, and of services with the same database.
    """
    with _jobs(state_dir) as store:
        drivers = {} if store is None else store.leases.drivers()
    return {
        job: _who(driver) for job, driver in drivers.items() if not is_dead_holder(driver.holder)
    }


def forget_row(state_dir: str | None, job: JobId) -> None:
    """Forget a job in the database, if there is one; raises `UserError` while somebody runs it."""
    with _jobs(state_dir) as store:
        if store is None or job not in store.list_job_ids():
            return
        lease = store.leases.acquire(job, lease_holder(), ttl_ms=_LEASE_MS, is_dead=is_dead_holder)
        if isinstance(lease, LeaseHeld):
            who = store.leases.drivers(job).get(job)
            by = "another process" if who is None else _who(who)
            raise UserError(
                f"job {job} is being run by {by}: stop it first, with Ctrl-C where it runs or with"
                f" `headgate stop {job}`",
                code="job_running",
            )
        store.delete_job(job)


def _who(driver: Driver) -> str:
    if driver.card is None:
        return "another process"
    return f"process {driver.card.pid} on {driver.card.host}"


@contextmanager
def _jobs(state_dir: str | None) -> Iterator[JobStore | None]:
    """Open the database of jobs that belongs to a state dir; None = there is none yet."""
    config = load_config(environment=os.environ, flags={"state_url": state_dir}).config
    url = config.controller.database_url
    if url is None:
        place = config.controller.data_dir or local_data_dir(absolute_state_url(config.state_url))
        file = Path(place).absolute() / "jobs.db"
        if not file.is_file():
            yield None
            return
        url = f"sqlite:///{file}"
    store = None
    try:
        store = JobStore(url)
        yield store
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise ExternalError(
            f"cannot read the database of jobs, which says who runs them: {said}", code="database"
        ) from error
    finally:
        if store is not None:
            store.close()
