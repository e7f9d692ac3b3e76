"""The slots of this controller: Spark cores that its jobs share, first come first served."""

from __future__ import annotations

import threading

from headgate.core.ids import JobId


class SlotPool:
    """`total` None = as many as are asked for.

    A job that is refused keeps its place in the queue until it asks again and is granted, or gives
    up (`release`): small jobs do not pass a large one for ever. A job that can never fit waits
    without standing in anybody's way.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._held: dict[JobId, int] = {}
        # In the order of their first asking.
        self._waiting: dict[JobId, int] = {}
        self._lock = threading.Lock()

    def acquire(self, job: JobId, slots: int) -> str | None:
        """Reserve; return None if granted, or why not. Repeating is harmless."""
        with self._lock:
            free = self._free_without(job)
            if self._total is None or free is None:
                return None
            if slots > self._total:
                return (
                    f"needs {slots} slots, there are only {self._total}:"
                    " lower its parallelism, or give the controller more slots"
                )
            self._waiting[job] = slots
            place = list(self._waiting).index(job)
            if slots > free or place > 0:
                before = f", {place} jobs are before it" if place else ""
                return f"needs {slots} slots, {free} of {self._total} are free{before}"
            del self._waiting[job]
            self._held[job] = slots
            return None

    def release(self, job: JobId) -> None:
        """Give back what the job holds, and its place in the queue."""
        with self._lock:
            self._held.pop(job, None)
            self._waiting.pop(job, None)

    def free(self) -> int | None:
        """Return the slots nobody holds; None = unlimited."""
        with self._lock:
            return self._free_without(None)

    def _free_without(self, job: JobId | None) -> int | None:
        if self._total is None:
            return None
        return self._total - sum(held for owner, held in self._held.items() if owner != job)
