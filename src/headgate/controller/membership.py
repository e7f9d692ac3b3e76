"""This controller among others of its database: how it presents itself, and who drives a job."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

import headgate
from headgate.controller.identity import is_dead_holder, lease_holder, process_of
from headgate.controller.leases import LeaseKeeper
from headgate.controller.runner import JobRunner
from headgate.controller.status import JobStatus, status_of
from headgate.controller.store.jobs import StoredJob
from headgate.controller.store.leases import (
    ControllerCard,
    Driver,
    LastProgress,
    Lease,
    LeaseHeld,
    LeaseStore,
    SeenController,
)
from headgate.controller.troubles import Troubles
from headgate.core.errors import ExternalError
from headgate.core.ids import JobId

log = logging.getLogger("headgate.controller.membership")


class DrivenElsewhere(ExternalError):
    """Another controller drives the job: what was asked here must be asked there.

    `code` is `job_leased`, or `controller_silent` if that one seems to be gone.
    """

    code = "job_leased"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        controller: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        # The URL of the one that drives it; None = it answers nobody.
        self.controller = controller
        self.retry_after_seconds = retry_after_seconds


def present(url: str, started_ms: int) -> ControllerCard:
    """Return this process as it presents itself to other controllers."""
    holder = lease_holder()
    return ControllerCard(
        holder=holder,
        instance=holder.rpartition("|")[2],
        url=url,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=headgate.__version__,
        started_ms=started_ms,
    )


def is_silent(silent_ms: int, ttl_ms: int) -> bool:
    """Whether a controller should have been heard of by now: it speaks every third of the time."""
    return silent_ms > ttl_ms // 2


def name_of(driver: Driver) -> str:
    """Return where to find the driver: its URL, or its process."""
    if driver.card is not None:
        return _name_of_card(driver.card)
    # It has never presented itself: of its lease a person understands the process.
    pid = process_of(driver.holder)
    return driver.holder if pid is None else f"process {pid}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def _name_of_card(card: ControllerCard) -> str:
    return card.url or f"process {card.pid} on {card.host}"


def driven_elsewhere(job: JobId, driver: Driver | None, ttl_ms: int) -> DrivenElsewhere:
    """Return the answer to a command for a job that another controller drives."""
    if driver is None:
        return DrivenElsewhere(
            f"job {job} is changing hands: try again in a moment", retry_after_seconds=1
        )
    name = name_of(driver)
    if driver.silent_ms is not None and is_silent(driver.silent_ms, ttl_ms):
        after = math.ceil((driver.expires_in_ms + ttl_ms / 3) / 1000)
        return DrivenElsewhere(
            f"job {job} is driven by another controller ({name}) that has not been heard of for"
            f" {driver.silent_ms // 1000} s: if it does not come back, one that is alive takes the"
            f" job over within {after} s. Try again then",
            code="controller_silent",
            retry_after_seconds=after,
        )
    if driver.card is None or not driver.card.url:
        since = "" if driver.card is None else f" since {_moment(driver.card.started_ms)}"
        return DrivenElsewhere(
            f"job {job} is being run by {name}{since}: stop it there, with Ctrl-C. If that process"
            f" is gone, wait: its lease ends in {math.ceil(driver.expires_in_ms / 1000)} s"
        )
    return DrivenElsewhere(
        f"job {job} is driven by another controller: ask {name}", controller=driver.card.url
    )


@dataclass(frozen=True)
class Elsewhere:
    """What the database knows of jobs that are not driven here."""

    drivers: Mapping[JobId, Driver] = field(default_factory=dict)
    said: Mapping[JobId, LastProgress] = field(default_factory=dict)

    def status(self, stored: StoredJob, heard: LastProgress | None) -> JobStatus:
        """Return the job as it is stored; `heard` is what a worker said when it was driven here.

        What another controller's worker says is as old as that one's last renewal.
        """
        driver = self.drivers.get(stored.job)
        seen = [last for last in (heard, self.said.get(stored.job)) if last is not None]
        return status_of(
            stored,
            stored.state,
            max(seen, key=lambda last: last.at_ms, default=None),
            driven_here=False,
            driven_by=None if driver is None else name_of(driver),
        )


class Membership:
    """The leases of one controller, and its view of the others."""

    def __init__(
        self,
        store: LeaseStore,
        card: ControllerCard,
        ttl_ms: int,
        on_lost: Callable[[JobRunner], None],
        said: Callable[[], Mapping[JobId, LastProgress]],
        troubles: Troubles | None = None,
    ) -> None:
        self.card = card
        # Where to find this controller: its URL, or its process.
        self.name = _name_of_card(card)
        self._store = store
        self._ttl_ms = ttl_ms
        self._keeper = LeaseKeeper(store, card, ttl_ms, on_lost, said=said, troubles=troubles)

    def start(self) -> None:
        self._keeper.start()

    def close(self) -> None:
        """Renew nothing any more."""
        self._keeper.close()

    def leave(self, held: Iterable[Lease]) -> None:
        """Give everything back, so that others need not wait; if the database lets us."""
        try:
            for lease in held:
                self._store.release(lease)
            self._store.leave(self.card.holder)
        except SQLAlchemyError as error:
            log.warning("the leases could not be given back, they run out: %s", error)

    # ---- leases ------------------------------------------------------------------------------

    def free_jobs(self) -> list[JobId]:
        """Return the jobs that no other controller drives.

        When the database was away for a while, those whose leases ran out then are not among them
        at once.
        """
        return self._store.free_jobs(
            self.card.holder, is_dead_holder, expired=not self._keeper.is_back_only_now()
        )

    def acquire(self, job: JobId) -> tuple[Lease | LeaseHeld, int]:
        """Ask for the job; return the answer, and when it was asked for."""
        asked_ms = self._keeper.now_ms()
        held = self._store.acquire(
            job, self.card.holder, ttl_ms=self._ttl_ms, is_dead=is_dead_holder
        )
        return held, asked_ms

    def keep(self, runner: JobRunner, since_ms: int) -> None:
        """Renew the runner's lease until it is let go."""
        self._keeper.keep(runner, since_ms)

    def let_go(self, runner: JobRunner) -> None:
        self._keeper.let_go(runner)

    def release(self, lease: Lease) -> None:
        self._store.release(lease)

    # ---- the others --------------------------------------------------------------------------

    def controllers(self) -> list[SeenController]:
        """Return all controllers of the database that were there a short while ago."""
        return self._store.controllers()

    def is_silent(self, seen: SeenController) -> bool:
        """Whether it should have been heard of by now."""
        return is_silent(seen.silent_ms, self._ttl_ms)

    def silent_ms(self) -> int:
        """Return how long ago the database last heard of this controller."""
        return self._keeper.silent_ms()

    def look(self, job: JobId | None = None) -> Elsewhere:
        """Return who drives which job, and what its worker said; of all jobs, or of one."""
        return Elsewhere(self._store.drivers(job), self._store.read_progress(job))

    def refusal(self, job: JobId) -> DrivenElsewhere:
        """Return the answer to a command for a job that another controller drives."""
        return driven_elsewhere(job, self._store.drivers(job).get(job), self._ttl_ms)

    def need_driver(self, job: JobId) -> None:
        """Raise `DrivenElsewhere` if another controller drives the job."""
        driver = self._store.drivers(job).get(job)
        if driver is not None and driver.holder != self.card.holder:
            raise driven_elsewhere(job, driver, self._ttl_ms)
