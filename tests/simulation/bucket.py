"""The simulated object store: one bucket, and each process's imperfect view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol, TypeVar

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.ids import JobId
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.storage.retrying import RetryingStore, RetryPolicy
from tests.simulation.faults import Faults
from tests.simulation.scheduler import Process, Scheduler

T = TypeVar("T")


@dataclass(slots=True)
class Blob:
    data: bytes
    info: ObjectInfo


class Watcher(Protocol):
    """Told of every change of the bucket, at the moment it takes effect.

    `since_ms` says since when the one who changes it has been at work.
    """

    def before_write(self, job: JobId, path: str, data: bytes) -> None: ...

    def after_write(self, job: JobId, path: str, data: bytes, since_ms: int) -> None: ...

    def before_delete(self, job: JobId, path: str, since_ms: int) -> None: ...


class Bucket:
    """What is really stored: job -> path -> object."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.folders: dict[JobId, dict[str, Blob]] = {}
        # What a fault has changed, as it was before: a person may bring it back from a copy.
        self.damaged: dict[JobId, dict[str, bytes]] = {}
        # When each of them was damaged.
        self.damaged_ms: dict[tuple[JobId, str], int] = {}
        self.watcher: Watcher | None = None

    def folder(self, job: JobId) -> dict[str, Blob]:
        return self.folders.setdefault(job, {})

    def get(self, job: JobId, path: str) -> bytes:
        blob = self.folder(job).get(path)
        if blob is None:
            raise ObjectNotFound(f"no {path}")
        return blob.data

    def head(self, job: JobId, path: str) -> ObjectInfo:
        blob = self.folder(job).get(path)
        if blob is None:
            raise ObjectNotFound(f"no {path}")
        return blob.info

    def list(self, job: JobId, prefix: str) -> list[ObjectInfo]:
        folder = self.folder(job)
        start = prefix.rstrip("/") + "/" if prefix else ""
        return [folder[path].info for path in sorted(folder) if path.startswith(start)]

    def put(self, job: JobId, path: str, data: bytes, since_ms: int) -> None:
        self._write(job, path, data, since_ms)

    def create(self, job: JobId, path: str, data: bytes, since_ms: int) -> None:
        found = self.folder(job).get(path)
        if found is None:
            self._write(job, path, data, since_ms)
        elif found.data != data:
            raise ObjectExists(f"{path} exists with other content")

    def delete(self, job: JobId, path: str, since_ms: int) -> None:
        if path in self.folder(job):
            if self.watcher is not None:
                self.watcher.before_delete(job, path, since_ms)
            del self.folder(job)[path]
            self.damaged.get(job, {}).pop(path, None)

    def _write(self, job: JobId, path: str, data: bytes, since_ms: int) -> None:
        if self.watcher is not None:
            self.watcher.before_write(job, path, data)
        self._place(job, path, data)
        self.damaged.get(job, {}).pop(path, None)
        if self.watcher is not None:
            self.watcher.after_write(job, path, data, since_ms)

    def _place(self, job: JobId, path: str, data: bytes) -> None:
        info = ObjectInfo(path=path, bytes=len(data), modified_us=self._scheduler.now_ms * 1_000)
        self.folder(job)[path] = Blob(data, info)

    # ---- damage ------------------------------------------------------------------------------

    def damage(self, job: JobId, path: str, data: bytes | None) -> None:
        """Replace an object behind everybody's back; None = lose it."""
        folder = self.folder(job)
        self.damaged.setdefault(job, {}).setdefault(path, folder[path].data)
        self.damaged_ms[job, path] = self._scheduler.now_ms
        if data is None:
            del folder[path]
        else:
            self._place(job, path, data)

    def heal(self, job: JobId) -> tuple[str, ...]:
        """Bring everything back that was damaged and not replaced since."""
        healed = self.damaged.pop(job, {})
        for path, data in healed.items():
            self._place(job, path, data)
        return tuple(sorted(healed))


Request = Literal["get", "head", "list", "put", "create", "delete"]


class View:
    """The port as one process sees it: requests fail, take long, or take effect too late."""

    def __init__(
        self, bucket: Bucket, job: JobId, process: Process, faults: Faults, luck: Random
    ) -> None:
        self._bucket = bucket
        self._job = job
        self._process = process
        self._faults = faults
        self._luck = luck
        self._opened_ms = process.scheduler.now_ms

    def get(self, path: str) -> bytes:
        return self._read("get", path, lambda: self._bucket.get(self._job, path))

    def head(self, path: str) -> ObjectInfo:
        return self._read("head", path, lambda: self._bucket.head(self._job, path))

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self.get(path)[start:end]

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        found = self._read("list", prefix, lambda: self._bucket.list(self._job, prefix))
        return iter([info for info in found if info.path > after])

    def put(self, path: str, data: bytes) -> None:
        since_ms = self._opened_ms
        self._write("put", path, lambda: self._bucket.put(self._job, path, data, since_ms))

    def create(self, path: str, data: bytes) -> None:
        since_ms = self._opened_ms
        self._write("create", path, lambda: self._bucket.create(self._job, path, data, since_ms))

    def delete(self, path: str) -> None:
        since_ms = self._opened_ms
        self._write("delete", path, lambda: self._bucket.delete(self._job, path, since_ms))

    def delete_many(self, paths: Sequence[str]) -> None:
        # Each by itself: a request that fails may have deleted some of them.
        for path in paths:
            self.delete(path)

    def _read(self, request: Request, path: str, effect: Callable[[], T]) -> T:
        self._pass_time()
        if self._faults.hits("read_failed"):
            raise StorageError(f"cannot {request} {path}: no answer")
        return effect()

    def _write(self, request: Request, path: str, effect: Callable[[], None]) -> None:
        self._pass_time()
        faults = self._faults
        if faults.hits("put_failed"):
            raise StorageError(f"cannot {request} {path}: refused")
        if faults.hits("put_late"):
            delay_ms = faults.between("put_late", 500, 15_000)
            self._process.scheduler.after(delay_ms, lambda: _if_free(effect))
            raise StorageError(f"cannot {request} {path}: no answer in time")
        if faults.hits("put_slow"):
            self._slowly(effect)
        else:
            effect()
        if faults.hits("put_answer_lost"):
            raise StorageError(f"cannot {request} {path}: connection closed")

    def _slowly(self, effect: Callable[[], None]) -> None:
        """The request is on its way for long, and goes on alone if its process dies."""
        delay_ms = self._faults.between("put_slow", 200, 6_000)
        if self._faults.pick("put_slow", 2):
            effect()
            self._process.sleep(delay_ms)
            return
        outcome: list[StorageError] = []

        def arrive() -> None:
            try:
                effect()
            except StorageError as error:
                outcome.append(error)

        self._process.scheduler.after(delay_ms, arrive)
        self._process.sleep(delay_ms)
        if outcome:
            raise outcome[0]

    def _pass_time(self) -> None:
        """Every request is a place where the process may die, or others may be faster."""
        self._process.check_alive()
        self._process.crash_point()
        if self._luck.random() < 0.25:
            self._process.sleep(self._luck.randint(0, 25))


def _if_free(effect: Callable[[], None]) -> None:
    try:
        effect()
    except ObjectExists:
        # The late request of a create found an object: the store refused it, nobody listens.
        return


def open_view(
    bucket: Bucket, job: JobId, process: Process, faults: Faults, luck: Random
) -> ObjectStore:
    """Return the job's folder as a process gets it: with the retries of the real system."""
    view = View(bucket, job, process, faults, luck)
    return RetryingStore(
        view,
        RetryPolicy(tries=2, initial_ms=20, max_ms=50),
        sleep=lambda seconds: process.sleep(round(seconds * 1000)),
        uniform=luck.random,
    )
