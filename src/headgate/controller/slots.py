"""The slots of this controller: Spark cores that its jobs share, first come first served."""

from __future__ import annotations

import threading

from headgate.core.ids import JobId


class SlotPool:
    """`total` None = as many as are asked for."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._held: dict[JobId, int] = {}
        self._lock = threading.Lock()

    def acquire(self, job: JobId, slots: int) -> str | None:
        with self._lock:
            free = self._free_without(job)
            if free is not None and slots > free:
                return f"needs {slots} slots, {free} of {self._total} are free"
            self._held[job] = slots
            return None

    def release(self, job: JobId) -> None:
        with self._lock:
            self._held.pop(job, None)

    def free(self) -> int | None:
        """Return the slots nobody holds; None = unlimited."""
        with self._lock:
            return self._free_without(None)

    def _free_without(self, job: JobId | None) -> int | None:
        if self._total is None:
            return None
        return self._total - sum(held for owner, held in self._held.items() if owner != job)
