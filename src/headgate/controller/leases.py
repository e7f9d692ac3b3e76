"""Keeps the leases of the jobs that are driven here, and says to the others that we are there.

Its thread does nothing else: nothing that may block, like the end of a process, stands between two
renewals. A lease that lapses would let another controller take a healthy job over.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from sqlalchemy.exc import SQLAlchemyError

from headgate.controller.clock import SteadyClock
from headgate.controller.runner import JobRunner
from headgate.controller.store.leases import ControllerCard, LastProgress, LeaseStore
from headgate.controller.troubles import Troubles
from headgate.core.errors import HeadgateError
from headgate.core.ids import JobId
from headgate.core.ports import Clock

log = logging.getLogger("headgate.controller.leases")


class LeaseKeeper:
    """`on_lost` is told of a job that another controller drives; it must not block."""

    def __init__(
        self,
        store: LeaseStore,
        card: ControllerCard,
        ttl_ms: int,
        on_lost: Callable[[JobRunner], None],
        *,
        said: Callable[[], Mapping[JobId, LastProgress]] = dict,
        clock: Clock | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        self._store = store
        self._card = card
        self._ttl_ms = ttl_ms
        self._on_lost = on_lost
        self._said = said
        self._troubles = troubles or Troubles()
        # Only differences of it count.
        self._clock = clock or SteadyClock()
        # Held for no longer than it takes to look into the dictionaries.
        self._lock = threading.Lock()
        self._kept: dict[JobId, JobRunner] = {}
        # Since when each lease holds for its whole time, or longer.
        self._since_ms: dict[JobId, int] = {}
        self._renewed_ms = self._clock.now_ms()
        # When the database answered again after it had not done so; None = it always has.
        self._back_ms: int | None = None
        # What the workers said that is stored already.
        self._stored_ms: dict[JobId, int] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._fences = threading.Thread(target=self._watch_fences, name="fences", daemon=True)

    def start(self) -> None:
        """Present this controller to the others at once, and then again and again."""
        self._renew_or_warn()
        self._thread.start()
        self._fences.start()

    def close(self) -> None:
        """Renew nothing any more; leases that were not given back run out."""
        self._closed.set()
        for thread in (self._thread, self._fences):
            if thread.is_alive():
                thread.join()

    def keep(self, runner: JobRunner, since_ms: int) -> None:
        """Renew this runner's lease until `let_go`. `since_ms` is when it was asked for."""
        with self._lock:
            self._kept[runner.job] = runner
            self._since_ms[runner.job] = since_ms

    def let_go(self, runner: JobRunner) -> bool:
        """Return whether it was still kept."""
        with self._lock:
            if self._kept.get(runner.job) is not runner:
                return False
            del self._kept[runner.job]
            return True

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def is_back_only_now(self) -> bool:
        """Whether the database was away until a moment ago, for us and so perhaps for all.

        Leases have run out meanwhile. Those who hold them are to have the time to renew them.
        """
        silent = self.silent_ms() > self._ttl_ms * 2 // 3
        return silent or (
            self._back_ms is not None and self._clock.now_ms() - self._back_ms < self._ttl_ms
        )

    def silent_ms(self) -> int:
        """Return how long ago the database last heard of this controller."""
        return self._clock.now_ms() - self._renewed_ms

    def renew_all(self) -> None:
        """Renew all leases at once."""
        # Counted from before the question: by the answer, some of the time is already over.
        asked_ms = self._clock.now_ms()
        with self._lock:
            kept = [runner for runner in self._kept.values() if not runner.is_over]
        news = {
            job: last
            for job, last in self._said().items()
            if last.at_ms != self._stored_ms.get(job)
        }
        renewed = self._store.renew(
            self._card, [runner.lease for runner in kept], ttl_ms=self._ttl_ms, said=news
        )
        if asked_ms - self._renewed_ms > self._ttl_ms * 2 // 3:
            self._back_ms = asked_ms
        self._renewed_ms = asked_ms
        self._stored_ms |= {job: last.at_ms for job, last in news.items() if job in renewed}
        for runner in kept:
            lease = renewed.get(runner.job)
            if lease is None or lease.number != runner.lease.number:
                self._lose(runner)
                continue
            runner.renewed(lease)
            with self._lock:
                if self._kept.get(runner.job) is runner:
                    self._since_ms[runner.job] = asked_ms

    def _lose(self, runner: JobRunner) -> None:
        if self.let_go(runner):
            self._on_lost(runner)

    def _run(self) -> None:
        pause_ms = self._ttl_ms / 3
        while not self._closed.wait(pause_ms / 1000):
            began_ms = self._clock.now_ms()
            if self._renew_or_warn():
                pause_ms = max(1, self._ttl_ms / 3 - (self._clock.now_ms() - began_ms))
            else:
                # The patience for one try may have used up most of the time.
                pause_ms = self._ttl_ms / 15

    def _renew_or_warn(self) -> bool:
        try:
            self.renew_all()
        except SQLAlchemyError as error:
            self._troubles.tell(self._troubles.of_database(error))
            return False
        except Exception as error:  # noqa: BLE001
            # The thread's boundary: without it all leases would lapse.
            self._troubles.failed("the renewal of leases", error)
            return False
        return True

    # ---- when the database is away -----------------------------------------------------------

    def lapsed(self) -> list[JobRunner]:
        """Return the runners whose leases may have run out because they could not be renewed."""
        now_ms = self._clock.now_ms()
        with self._lock:
            return [
                runner
                for job, runner in self._kept.items()
                if now_ms - self._since_ms[job] >= self._ttl_ms and not runner.is_over
            ]

    def ask_fences(self) -> None:
        """Let go of lapsed jobs that another controller has taken over, as the state store says.

        Nothing can be recorded or published for them any more, whatever we do. The others run on:
        a database that is away for all must not stop them, and if it is away only for us, whoever
        takes a job over writes the fence first.
        """
        for runner in self.lapsed():
            try:
                superseded = runner.is_superseded()
            except HeadgateError as error:
                log.warning("job %s: its fence could not be read: %s", runner.job, error.message)
                continue
            if superseded:
                log.warning("job %s: another controller has claimed it", runner.job)
                self._lose(runner)

    def _watch_fences(self) -> None:
        while not self._closed.wait(self._ttl_ms / 3000):
            try:
                self.ask_fences()
            except Exception as error:  # noqa: BLE001
                # The thread's boundary.
                self._troubles.failed("the look at the fences", error)
