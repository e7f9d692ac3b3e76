"""Memory, shared by name within the process: for tests and trials. Gone with the process."""

from __future__ import annotations

import threading

from obstore.store import MemoryStore as MemoryBackend

from headgate.storage.adapter import ObstoreAdapter

_backends: dict[str, MemoryBackend] = {}
_lock = threading.Lock()


class MemoryStore(ObstoreAdapter):
    """The port over a named map."""

    def __init__(self, name: str) -> None:
        with _lock:
            backend = _backends.setdefault(name, MemoryBackend())
        super().__init__(backend)
