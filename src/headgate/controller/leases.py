"""Keeps the leases of the jobs that are driven here.

Its thread does nothing else: nothing that may block, like the end of a process, stands between two
renewals. A lease that lapses would let another controller take a healthy job over.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from headgate.controller.runner import JobRunner
from headgate.controller.store.jobs import JobStore, LeaseLost
from headgate.core.ids import JobId
from headgate.core.ports import Clock

log = logging.getLogger("headgate.controller.leases")


class LeaseKeeper:
    """`on_lost` is told of a lease that somebody else holds; it must not block."""

    def __init__(
        self, store: JobStore, clock: Clock, ttl_ms: int, on_lost: Callable[[JobRunner], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._on_lost = on_lost
        # Held for no longer than it takes to look into the dictionary.
        self._lock = threading.Lock()
        self._kept: dict[JobId, JobRunner] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Renew nothing any more; leases that were not given back run out."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def keep(self, runner: JobRunner) -> None:
        """Renew this runner's lease until `let_go`."""
        with self._lock:
            self._kept[runner.job] = runner

    def let_go(self, runner: JobRunner) -> None:
        with self._lock:
            if self._kept.get(runner.job) is runner:
                del self._kept[runner.job]

    def renew_all(self) -> None:
        """Renew every lease once. One that cannot be renewed keeps no other from it."""
        with self._lock:
            kept = list(self._kept.values())
        for runner in kept:
            if not runner.is_over:
                self._renew(runner)

    def _renew(self, runner: JobRunner) -> None:
        try:
            renewed = self._store.renew_lease(
                runner.lease, now_ms=self._clock.now_ms(), ttl_ms=self._ttl_ms
            )
        except SQLAlchemyError as error:
            log.warning("job %s: the lease could not be renewed: %s", runner.job, error)
            return
        if isinstance(renewed, LeaseLost):
            self.let_go(runner)
            self._on_lost(runner)
        else:
            runner.renewed(renewed)

    def _run(self) -> None:
        while not self._closed.wait(self._ttl_ms / 3000):
            try:
                self.renew_all()
            except Exception:
                # The thread's boundary: without it all leases would lapse.
                log.exception("leases could not be kept")
