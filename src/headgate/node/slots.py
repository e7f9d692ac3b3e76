"""The slots of this machine, which its controllers share: the node has the last word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable


class NodeSlots:
    """Who holds how many. Whoever watches is told of every change, outside of the lock."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        # By session, then by worker.
        self._held: dict[str, dict[Hashable, int]] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        with self._lock:
            self._watchers.append(changed)

    def take(self, session: str, worker: Hashable, slots: int) -> str | None:
        """Take slots for a worker; return None if granted, or why not, for a person."""
        with self._lock:
            held = sum(sum(workers.values()) for workers in self._held.values())
            free = self.total - held
            if slots > free:
                return f"needs {slots} slots, {max(0, free)} of {self.total} are free"
            self._held.setdefault(session, {})[worker] = slots
        self._tell()
        return None

    def give_back(self, session: str, worker: Hashable) -> None:
        with self._lock:
            workers = self._held.get(session, {})
            if workers.pop(worker, None) is None:
                return
            if not workers:
                del self._held[session]
        self._tell()

    def by_others(self, session: str | None) -> int:
        """Return the slots that workers of other sessions hold."""
        with self._lock:
            return sum(
                sum(workers.values()) for owner, workers in self._held.items() if owner != session
            )

    def _tell(self) -> None:
        with self._lock:
            watchers = list(self._watchers)
        for changed in watchers:
            changed()
