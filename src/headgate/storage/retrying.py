"""Bounded retries with backoff for errors that may pass."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.storage.adapter import BAD_PATH, DENIED

T = TypeVar("T")


@model
class RetryPolicy:
    """Wait min(max, initial * 2^n), half of it random, before the next of `tries` tries."""

    tries: int = 5
    initial_ms: int = 100
    max_ms: int = 3_000

    def delay_ms(self, failures: int, uniform: float) -> float:
        full = min(self.max_ms, self.initial_ms << min(failures, 30))
        return full / 2 + full / 2 * uniform


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

    def get(self, path: str) -> bytes:
        return self._retry(lambda: self._inner.get(path))

    def put(self, path: str, data: bytes) -> None:
        self._retry(lambda: self._inner.put(path, data))

    def create(self, path: str, data: bytes) -> None:
        self._retry(lambda: self._inner.create(path, data))

    def head(self, path: str) -> ObjectInfo:
        return self._retry(lambda: self._inner.head(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # Taken whole, so that an error in the middle starts the listing again, not its consumer.
        return iter(self._retry(lambda: list(self._inner.list(prefix))))

    def delete(self, path: str) -> None:
        self._retry(lambda: self._inner.delete(path))

    def _retry(self, call: Callable[[], T]) -> T:
        for failures in range(self._policy.tries - 1):
            try:
                return call()
            except (ObjectNotFound, ObjectExists):
                raise
            except StorageError as error:
                if error.code in (DENIED, BAD_PATH):
                    raise
            self._sleep(self._policy.delay_ms(failures, self._uniform()) / 1000)
        return call()
