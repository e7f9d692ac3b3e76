"""A store that deletes for a limited time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.core.ports import Clock, ObjectInfo, ObjectStore


class TimeSpent(Exception):
    """The time is up; what was to be deleted next is still there."""


class TimedDeletes:
    """An `ObjectStore` whose `delete` raises `TimeSpent` when its time is up."""

    def __init__(self, store: ObjectStore, clock: Clock, time_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._until_ms = clock.now_ms() + time_ms
        self.deleted = 0

    def get(self, path: str) -> bytes:
        return self._store.get(path)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self._store.get_range(path, start, end)

    def put(self, path: str, data: bytes) -> None:
        self._store.put(path, data)

    def create(self, path: str, data: bytes) -> None:
        self._store.create(path, data)

    def head(self, path: str) -> ObjectInfo:
        return self._store.head(path)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, after=after)

    def delete(self, path: str) -> None:
        # The first delete is always done, so that every cleanup gets on.
        if self.deleted and self._clock.now_ms() >= self._until_ms:
            raise TimeSpent(path)
        self._store.delete(path)
        self.deleted += 1

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)
