"""Object stores for tests: one in a dict, one that breaks, one in which nothing is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.ports import ObjectInfo, ObjectStore

T = TypeVar("T")


class DictStore:
    """The port over a dict. `modified` is a counter, so tests can tell old from new."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified: dict[str, int] = {}

    def get(self, path: str) -> bytes:
        if path not in self.objects:
            raise ObjectNotFound(path)
        return self.objects[path]

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.modified[path] = len(self.modified)

    def create(self, path: str, data: bytes) -> None:
        if self.objects.get(path, data) != data:
            raise ObjectExists(path)
        self.put(path, data)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self.get(path)[start:end]

    def head(self, path: str) -> ObjectInfo:
        return ObjectInfo(
            path=path, bytes=len(self.get(path)), modified_us=self.modified.get(path, 0) * 1_000
        )

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        folder = prefix.rstrip("/") + "/" if prefix else ""
        paths = [p for p in sorted(self.objects) if p.startswith(folder) and p > after]
        return iter([self.head(path) for path in paths])

    def delete(self, path: str) -> None:
        self.objects.pop(path, None)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)


class Crash(BaseException):
    """The process dies here. Not an `Exception`: nothing may catch it."""


class FailingStore:
    """Calls `strike` at the n-th request (counted from 0), before or after it takes effect."""

    def __init__(
        self, inner: ObjectStore, at: int, strike: Callable[[], None], *, after: bool
    ) -> None:
        self._inner = inner
        self._left = at
        self._strike = strike
        self._after = after
        self.struck = False

    def get(self, path: str) -> bytes:
        return self._call(lambda: self._inner.get(path))

    def put(self, path: str, data: bytes) -> None:
        self._call(lambda: self._inner.put(path, data))

    def create(self, path: str, data: bytes) -> None:
        self._call(lambda: self._inner.create(path, data))

    def head(self, path: str) -> ObjectInfo:
        return self._call(lambda: self._inner.head(path))

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self._call(lambda: self._inner.get_range(path, start, end))

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self._call(lambda: self._inner.list(prefix, after=after))

    def delete(self, path: str) -> None:
        self._call(lambda: self._inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        # One after the other: a strike in the middle leaves some of them.
        for path in paths:
            self.delete(path)

    def _call(self, call: Callable[[], T]) -> T:
        now, self._left = self._left == 0, self._left - 1
        if now and not self._after:
            self._hit()
        try:
            return call()
        finally:
            # Also where the request failed: its answer is lost.
            if now and self._after:
                self._hit()

    def _hit(self) -> None:
        self.struck = True
        self._strike()


def crash() -> None:
    raise Crash


def unavailable() -> None:
    raise StorageError("the store does not answer")


class WriteOnceStore(DictStore):
    """A store in which nothing may be written twice. It notes what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[str] = []

    def get(self, path: str) -> bytes:
        self.gets.append(path)
        return super().get(path)

    def head(self, path: str) -> ObjectInfo:
        return ObjectInfo(path=path, bytes=len(self.objects[path]), modified_us=0)

    def put(self, path: str, data: bytes) -> None:
        assert path not in self.objects, f"{path} is written twice"
        super().put(path, data)
