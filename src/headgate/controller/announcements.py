"""What subscribers hear while jobs run. Nothing depends on their hearing it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from headgate.controller.rules.notes import Note, WaitNote
from headgate.controller.store.leases import LastProgress
from headgate.core.ids import Generation, JobId
from headgate.core.messages import Progress
from headgate.core.model import model

log = logging.getLogger("headgate.controller")


@model
class StateChanged:
    job: JobId
    at_ms: int
    before: str
    after: str
    reason: str


@model
class Noted:
    """A checkpoint, a phase of a recovery, a savepoint, a cleanup, a wait, ..."""

    job: JobId
    at_ms: int
    note: Note | WaitNote


@model
class ProgressMade:
    """From the worker's heartbeat."""

    job: JobId
    at_ms: int
    generation: Generation
    progress: Progress


Announcement = StateChanged | Noted | ProgressMade


class Announcer:
    """Tells subscribers, and keeps what the last worker of each job said."""

    def __init__(self) -> None:
        # Its own lock: whoever subscribes does not wait for a job that is being taken up.
        self._lock = threading.Lock()
        self._subscribers: list[Callable[[Announcement], None]] = []
        self._progress: dict[JobId, LastProgress] = {}

    def subscribe(self, callback: Callable[[Announcement], None]) -> Callable[[], None]:
        """Call back on every announcement, from a runner's thread; returns how to end it."""
        with self._lock:
            self._subscribers.append(callback)

        def unsubscribe() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._subscribers.remove(callback)

        return unsubscribe

    def announce(self, announcement: Announcement) -> None:
        with self._lock:
            subscribers = list(self._subscribers)
            if isinstance(announcement, ProgressMade):
                self._progress[announcement.job] = LastProgress(
                    at_ms=announcement.at_ms, progress=announcement.progress
                )
        for subscriber in subscribers:
            try:
                subscriber(announcement)
            except Exception:
                # Whoever listens must not be able to stop a job.
                log.exception("a subscriber failed")

    def progress(self, job: JobId) -> LastProgress | None:
        """Return what the job's last worker said; kept after the job's end."""
        with self._lock:
            return self._progress.get(job)

    def all_progress(self) -> dict[JobId, LastProgress]:
        with self._lock:
            return dict(self._progress)

    def forget(self, job: JobId) -> None:
        with self._lock:
            self._progress.pop(job, None)
