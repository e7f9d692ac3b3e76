"""What the core needs from outside. Adapters are built once, in `components.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage
from headgate.core.model import model


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970."""


@model
class ObjectInfo:
    path: str
    bytes: int
    modified_us: int

    @property
    def modified_ms(self) -> int:
        return self.modified_us // 1_000


class ObjectStore(Protocol):
    """Named immutable blobs, read-after-write. Paths are relative to the store's root.

    Failures raise `StorageError`; a missing object raises `ObjectNotFound`.
    """

    def get(self, path: str) -> bytes: ...

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        """Return the bytes [start, end), or what there is of them; without `end`, the rest."""

    def put(self, path: str, data: bytes) -> None:
        """Write or replace at once: an object is never seen in part."""

    def create(self, path: str, data: bytes) -> None:
        """Write only if absent; raise `ObjectExists` if another object is there.

        A create that took effect although the store reported failure counts as success when the
        object found holds exactly `data`: callers put something unique into what they create.
        """

    def head(self, path: str) -> ObjectInfo: ...

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """List recursively everything below `prefix` (a folder), in path order.

        Page by page, as the iterator is consumed; only paths greater than `after`.
        """

    def delete(self, path: str) -> None:
        """Delete; deleting what is absent succeeds."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete all of them, in any order, in as few requests as the store can.

        If it fails, some may be gone: repeat it.
        """


class WorkerFleet(Protocol):
    """Starts and ends worker processes. Must be idempotent per (job, generation)."""

    def start(self, job: JobId, generation: Generation, token: str) -> None: ...

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        """Best effort: a message to a dead worker is lost, its death is an event of its own."""

    def kill(self, job: JobId, generation: Generation) -> None:
        """End the worker of this generation and every older one, with their children."""
