"""Bounded retries with backoff for errors that may pass.

Written out and not taken from a library: the waits come from the caller's clock and luck, so that
the simulation can play them, and a listing goes on after the last name it has seen.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from headgate.core.backoff import backoff_ms
from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.storage.side_by_side import requests_at_once
from headgate.storage.translation import BAD_PATH, DENIED

T = TypeVar("T")


@model
class RetryPolicy:
    """How often a call is tried; `core/backoff.py` says how long to wait in between."""

    tries: int = 5
    initial_ms: int = 100
    max_ms: int = 3_000

    def delay_ms(self, failures: int, uniform: float) -> int:
        return backoff_ms(initial_ms=self.initial_ms, max_ms=self.max_ms, n=failures, roll=uniform)


class RetryingStore:
    """The port over a store that sometimes does not answer.

    Every call of the port may be repeated: `put` writes the same bytes, `create` recognises its
    own earlier success by content, `delete` of what is absent succeeds.
    """

    def __init__(
        self,
        inner: ObjectStore,
        policy: RetryPolicy,
        *,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self._policy = policy
        self._sleep = sleep
        self._uniform = uniform

    @property
    def requests_at_once(self) -> int:
        return requests_at_once(self._inner)

    def get(self, path: str) -> bytes:
        return self._retry(lambda: self._inner.get(path))

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self._retry(lambda: self._inner.get_range(path, start, end))

    def put(self, path: str, data: bytes) -> None:
        self._retry(lambda: self._inner.put(path, data))

    def create(self, path: str, data: bytes) -> None:
        self._retry(lambda: self._inner.create(path, data))

    def head(self, path: str) -> ObjectInfo:
        return self._retry(lambda: self._inner.head(path))

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        found = self._inner.list(prefix, after=after)
        failures = 0
        while True:
            try:
                info = next(found, None)
            except StorageError as error:
                failures += 1
                self._wait(error, failures)
                # It goes on behind what its consumer has already seen.
                found = self._inner.list(prefix, after=after)
                continue
            if info is None:
                return
            failures, after = 0, info.path
            yield info

    def delete(self, path: str) -> None:
        self._retry(lambda: self._inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        self._retry(lambda: self._inner.delete_many(paths))

    def _retry(self, call: Callable[[], T]) -> T:
        failures = 0
        while True:
            try:
                return call()
            except StorageError as error:
                failures += 1
                self._wait(error, failures)

    def _wait(self, error: StorageError, failures: int) -> None:
        """Wait before the next try, or raise the error: it does not pass, or did not."""
        expected = isinstance(error, ObjectNotFound | ObjectExists)
        if expected or error.code in (DENIED, BAD_PATH) or failures >= self._policy.tries:
            raise error
        self._sleep(self._policy.delay_ms(failures - 1, self._uniform()) / 1000)
