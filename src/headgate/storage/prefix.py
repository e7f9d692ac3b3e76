"""A folder of a store, seen as a store."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.ports import ObjectInfo, ObjectStore


class PrefixStore:
    """A view of everything below `folder` of another store."""

    def __init__(self, inner: ObjectStore, folder: str) -> None:
        self.inner = inner
        self.folder = folder.strip("/") + "/"

    def get(self, path: str) -> bytes:
        return self.inner.get(self.folder + path)

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(self.folder + path, data)

    def create(self, path: str, data: bytes) -> None:
        self.inner.create(self.folder + path, data)

    def head(self, path: str) -> ObjectInfo:
        info = self.inner.head(self.folder + path)
        return ObjectInfo(path=path, bytes=info.bytes, modified_ms=info.modified_ms)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        skip = len(self.folder)
        for info in self.inner.list(self.folder + prefix):
            yield ObjectInfo(path=info.path[skip:], bytes=info.bytes, modified_ms=info.modified_ms)

    def delete(self, path: str) -> None:
        self.inner.delete(self.folder + path)

    def __repr__(self) -> str:
        return f"{self.inner!r}/{self.folder}"
