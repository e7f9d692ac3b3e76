"""A store as it would be after some writes: they are kept in memory, the store is not touched."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from headgate.core.ports import ObjectInfo, ObjectStore


@dataclass
class Overlay:
    """The port over a store that is only read. Nothing can be deleted from it."""

    inner: ObjectStore
    written: dict[str, bytes] = field(default_factory=dict)

    def get(self, path: str) -> bytes:
        return self.written[path] if path in self.written else self.inner.get(path)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        if path in self.written:
            return self.written[path][start:end]
        return self.inner.get_range(path, start, end)

    def put(self, path: str, data: bytes) -> None:
        self.written[path] = data

    def create(self, path: str, data: bytes) -> None:
        raise AssertionError(f"an overlay is written by `put` only, not {path}")

    def head(self, path: str) -> ObjectInfo:
        return self._info(path) if path in self.written else self.inner.head(path)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        ours = [
            self._info(path)
            for path in sorted(self.written)
            if path.startswith(folder) and path > after
        ]
        theirs = (i for i in self.inner.list(prefix, after=after) if i.path not in self.written)
        return heapq.merge(ours, theirs, key=attrgetter("path"))

    def delete(self, path: str) -> None:
        raise AssertionError(f"an overlay is not deleted from, but {path}")

    def delete_many(self, paths: Sequence[str]) -> None:
        raise AssertionError(f"an overlay is not deleted from, but {paths}")

    def _info(self, path: str) -> ObjectInfo:
        return ObjectInfo(path=path, bytes=len(self.written[path]), modified_us=0)
