"""Commands look at a job whose cleanup deletes old checkpoints at any moment of it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from shop_job import Shop, two_generations

from headgate.cli.inspection.checkpoints import gather
from headgate.cli.inspection.opened import OpenedJob
from headgate.core.ids import Generation
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.inspection.doctor import diagnose
from headgate.state.inspection.repair import repair
from headgate.state.protocol.epoch_log import read_log
from headgate.storage import open_store

NOW_MS = 2**60
RETAINED = 2


class Beside:
    """A store from which `deletes` go, so many with each request from the one numbered `begin`."""

    def __init__(
        self, inner: ObjectStore, deletes: Sequence[str], *, begin: int, at_once: int
    ) -> None:
        self._inner = inner
        self._left = list(deletes)
        self._begin = begin
        self._at_once = at_once
        self.requests = 0

    def _passes(self) -> None:
        self.requests += 1
        if self.requests >= self._begin:
            gone, self._left = self._left[: self._at_once], self._left[self._at_once :]
            for path in gone:
                self._inner.delete(path)

    def get(self, path: str) -> bytes:
        self._passes()
        return self._inner.get(path)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        self._passes()
        return self._inner.get_range(path, start, end)

    def head(self, path: str) -> ObjectInfo:
        self._passes()
        return self._inner.head(path)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self._passes()
        return self._inner.list(prefix, after=after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Noting:
    """A store that notes what is deleted, in its order."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.deleted: list[str] = []

    def delete(self, path: str) -> None:
        self.deleted.append(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        self.deleted.extend(paths)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def shop(state_dir: Path) -> Shop:
    return two_generations(state_dir)


def copied(shop: Shop) -> ObjectStore:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    for info in shop.store.list(""):
        store.put(info.path, shop.store.get(info.path))
    return store


def cleanup_of(shop: Shop) -> list[str]:
    noting: Any = Noting(shop.store)
    run_cleanup(noting, shop.job, keep_last=RETAINED, live_generation=Generation(2), now_ms=NOW_MS)
    return list(noting.deleted)


def moments(shop: Shop, deletes: Sequence[str], *, every: int = 1) -> Iterator[Any]:
    """Yield the store for each way in which the cleanup goes on at one of another's requests.

    It has done nothing yet, or a part, and does the rest at once or with request after request.
    """
    done = range(0, len(deletes), len(deletes) // 4)
    for before, at_once in itertools.product(done, (1, len(deletes))):
        for begin in itertools.count(1, every):
            store = copied(shop)
            for path in deletes[:before]:
                store.delete(path)
            beside = Beside(store, deletes[before:], begin=begin, at_once=at_once)
            yield beside
            if beside.requests < begin:
                break


def test_a_cleanup_in_the_middle_of_a_diagnosis_is_no_finding(shop: Shop) -> None:
    deletes = cleanup_of(shop)
    assert len(deletes) > 8
    seen = 0
    for beside in moments(shop, deletes):
        found = diagnose(beside, shop.job, now_ms=NOW_MS)
        assert found.comes_back, found.verdict
        assert [f.problem for f in found.findings if f.severity != "note"] == []
        seen += 1
    assert seen > 200


def test_a_checkpoint_that_is_being_deleted_is_not_listed_as_damaged(shop: Shop) -> None:
    for beside in moments(shop, cleanup_of(shop)):
        found = gather(OpenedJob(beside, shop.job), now_ms=NOW_MS)
        assert {line.state for line in found.checkpoints} == {"ready"}
        assert [line.epoch for line in found.checkpoints][:2] == [5, 4]


def test_a_repair_beside_a_cleanup_leaves_what_the_job_keeps(shop: Shop) -> None:
    deletes = cleanup_of(shop)
    for beside in moments(shop, deletes, every=5):
        repair(beside, shop.job, now_ms=NOW_MS)
        # The next cleanup of the job removes again what the repair has written for old epochs.
        run_cleanup(
            beside, shop.job, keep_last=RETAINED, live_generation=Generation(2), now_ms=NOW_MS
        )
        assert read_log(beside).epochs == (4, 5)
        assert diagnose(beside, shop.job, now_ms=NOW_MS).healthy
