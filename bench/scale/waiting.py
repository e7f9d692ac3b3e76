"""Recording a checkpoint and phases 1 to 3 of a recovery, against a store that takes its time.

The store is in memory and waits 20 ms for each request and each page of a listing, as a bucket in
the same region does. What is measured is therefore how many requests are made, and how many of
them one after the other; bandwidth is not.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from bench.scale.pure import Figures
from bench.scale.world import JOB, Job
from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import ObjectExists, ObjectNotFound
from headgate.core.ids import Epoch, Generation
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.protocol.writes import (
    Recorded,
    claim_generation,
    newest_claim,
    write_checkpoint,
    write_committed,
)
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.storage import CountingStore

T = TypeVar("T")

LATENCY_SECONDS = 0.02
PAGE = 1_000


class WaitingStore:
    """Objects in memory, behind a network that takes its time."""

    requests_at_once = 16

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._sorted: list[str] = []
        self._lock = threading.Lock()
        self.seconds = 0.0
        self.requests = 0

    def _wait(self) -> None:
        with self._lock:
            self.requests += 1
        time.sleep(self.seconds)

    def get(self, path: str) -> bytes:
        self._wait()
        if path not in self._objects:
            raise ObjectNotFound(path)
        return self._objects[path]

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self.get(path)[start:end]

    def put(self, path: str, data: bytes) -> None:
        self._wait()
        self._objects[path] = data

    def create(self, path: str, data: bytes) -> None:
        self._wait()
        with self._lock:
            if self._objects.setdefault(path, data) != data:
                raise ObjectExists(path)

    def head(self, path: str) -> ObjectInfo:
        return ObjectInfo(path=path, bytes=len(self.get(path)), modified_us=0)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        folder = prefix.rstrip("/") + "/" if prefix else ""
        with self._lock:
            # Sorted once, not for every listing: the store itself must cost nothing.
            if len(self._sorted) != len(self._objects):
                self._sorted = sorted(self._objects)
            names = self._sorted
        at = max(bisect_left(names, folder), bisect_right(names, after))
        end = bisect_left(names, f"{folder}\U0010ffff")
        for start in range(at, max(at + 1, end), PAGE):
            self._wait()
            for path in names[start : min(end, start + PAGE)]:
                yield ObjectInfo(path=path, bytes=len(self._objects[path]), modified_us=0)

    def delete(self, path: str) -> None:
        self._wait()
        self._objects.pop(path, None)

    def delete_many(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), PAGE):
            self._wait()
            for path in paths[start : start + PAGE]:
                self._objects.pop(path, None)


def measure(job: Job, *, latency_seconds: float = LATENCY_SECONDS) -> Figures:
    """Record one checkpoint, then recover from it, with nothing published yet."""
    figures, store = Figures(job), WaitingStore()
    claim_generation(store, JOB, claimant="a", base=None, parallelism=job.subtasks, now_ms=1)
    facts = job.facts(1)
    job.write_files(store, facts)
    store.seconds = latency_seconds

    def asked(name: str, call: Callable[[ObjectStore], T]) -> T:
        """Note seconds, requests and bytes of a call."""
        counted, before, began = CountingStore(store), store.requests, time.perf_counter()
        answer = call(counted)
        figures.note(f"{name}, ms", (time.perf_counter() - began) * 1e3)
        figures.note(f"{name}, requests", store.requests - before)
        moved = counted.counts.bytes_read + counted.counts.bytes_written
        figures.note(f"{name}, bytes", moved)
        return answer

    outcome = asked("record", lambda counted: write_checkpoint(counted, facts))
    assert isinstance(outcome, Recorded)
    ref = CheckpointRef(generation=Generation(1), epoch=Epoch(1))

    def prepare(counted: ObjectStore, verify: bool = False) -> LoadPrepared:
        found = StateBackend(counted, JOB).prepare_checkpoint_load(
            parallelism=job.subtasks, graph=job.graph, verify_checksums=verify
        )
        assert isinstance(found, LoadPrepared)
        assert found.checkpoint == ref
        return found

    asked("identify", lambda counted: StateBackend(counted, JOB).identify_checkpoint())
    asked("prepare, output not published", prepare)
    asked("marker", lambda counted: write_committed(counted, JOB, ref))
    asked("prepare, output published", prepare)

    def claim(counted: ObjectStore) -> None:
        newest_claim(counted, JOB)
        claim_generation(counted, JOB, claimant="b", base=ref, parallelism=job.subtasks, now_ms=2)

    asked("claim a generation", claim)
    return figures
