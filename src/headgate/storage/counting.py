"""Counts requests and bytes by kind, for metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.storage.side_by_side import requests_at_once


@dataclass
class RequestCounts:
    """Totals since the wrapper was made. `creates` count as `puts` on the provider's bill."""

    gets: int = 0
    puts: int = 0
    creates: int = 0
    heads: int = 0
    lists: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def requests(self) -> int:
        return self.gets + self.puts + self.creates + self.heads + self.lists + self.deletes


class CountingStore:
    """The port over another store. A request that fails is counted too: it was made.

    With `shared`, the requests are added to those of another wrapper.
    """

    def __init__(self, inner: ObjectStore, shared: CountingStore | None = None) -> None:
        self._inner = inner
        self._lock: threading.Lock = threading.Lock() if shared is None else shared._lock
        self.counts: RequestCounts = RequestCounts() if shared is None else shared.counts

    @property
    def requests_at_once(self) -> int:
        return requests_at_once(self._inner)

    def get(self, path: str) -> bytes:
        self._add(gets=1)
        data = self._inner.get(path)
        self._add(bytes_read=len(data))
        return data

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        self._add(gets=1)
        data = self._inner.get_range(path, start, end)
        self._add(bytes_read=len(data))
        return data

    def put(self, path: str, data: bytes) -> None:
        self._add(puts=1)
        self._inner.put(path, data)
        self._add(bytes_written=len(data))

    def create(self, path: str, data: bytes) -> None:
        self._add(creates=1)
        self._inner.create(path, data)
        self._add(bytes_written=len(data))

    def head(self, path: str) -> ObjectInfo:
        self._add(heads=1)
        return self._inner.head(path)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self._add(lists=1)
        return self._inner.list(prefix, after=after)

    def delete(self, path: str) -> None:
        self._add(deletes=1)
        self._inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        self._add(deletes=len(paths))
        self._inner.delete_many(paths)

    def _add(self, **increments: int) -> None:
        with self._lock:
            for name, increment in increments.items():
                setattr(self.counts, name, getattr(self.counts, name) + increment)
