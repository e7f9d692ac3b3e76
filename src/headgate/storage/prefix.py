"""A folder of a store, seen as a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.storage.side_by_side import requests_at_once


class PrefixStore:
    """A view of everything below `folder` of another store."""

    def __init__(self, inner: ObjectStore, folder: str) -> None:
        self.inner = inner
        self.folder = folder.strip("/") + "/"

    @property
    def requests_at_once(self) -> int:
        return requests_at_once(self.inner)

    def get(self, path: str) -> bytes:
        return self.inner.get(self.folder + path)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self.inner.get_range(self.folder + path, start, end)

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(self.folder + path, data)

    def create(self, path: str, data: bytes) -> None:
        self.inner.create(self.folder + path, data)

    def head(self, path: str) -> ObjectInfo:
        return replace(self.inner.head(self.folder + path), path=path)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        skip = len(self.folder)
        for info in self.inner.list(self.folder + prefix, after=after and self.folder + after):
            yield replace(info, path=info.path[skip:])

    def delete(self, path: str) -> None:
        self.inner.delete(self.folder + path)

    def delete_many(self, paths: Sequence[str]) -> None:
        self.inner.delete_many([self.folder + path for path in paths])

    def __repr__(self) -> str:
        return f"{self.inner!r}/{self.folder}"
