"""Retries, durable local files, counting, and the choice of a store by URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from state_world import Crash, DictStore, FailingStore, crash, unavailable

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError, UserError
from headgate.core.ids import JobId
from headgate.storage import (
    CountingStore,
    RetryingStore,
    RetryPolicy,
    job_folder,
    open_store,
)


class Broken(DictStore):
    """Fails the given number of times, before or after taking effect."""

    def __init__(self, failures: int, code: str | None = None, *, after: bool = False) -> None:
        super().__init__()
        self.left = failures
        self.code = code
        self.after = after

    def get(self, path: str) -> bytes:
        self._maybe_fail()
        return super().get(path)

    def create(self, path: str, data: bytes) -> None:
        if self.after:
            super().create(path, data)
        self._maybe_fail()
        super().create(path, data)

    def _maybe_fail(self) -> None:
        if self.left > 0:
            self.left -= 1
            raise StorageError("no answer", code=self.code)


def retrying(inner: DictStore, tries: int = 4) -> tuple[RetryingStore, list[float]]:
    slept: list[float] = []
    policy = RetryPolicy(tries=tries, initial_ms=100, max_ms=300)
    return RetryingStore(inner, policy, sleep=slept.append, uniform=lambda: 0.5), slept


# ---- retries ----


def test_a_passing_error_is_retried_with_growing_bounded_waits() -> None:
    inner = Broken(3)
    inner.put("a", b"1")
    store, slept = retrying(inner)
    assert store.get("a") == b"1"
    assert slept == [0.075, 0.15, 0.225]


def test_an_error_that_does_not_pass_is_raised_after_the_last_try() -> None:
    store, slept = retrying(Broken(99))
    with pytest.raises(StorageError, match="no answer"):
        store.get("a")
    assert len(slept) == 3


@pytest.mark.parametrize("code", ["storage_denied", "storage_path"])
def test_a_permanent_error_is_not_retried(code: str) -> None:
    store, slept = retrying(Broken(99, code))
    with pytest.raises(StorageError):
        store.get("a")
    assert slept == []


def test_expected_outcomes_are_not_retried() -> None:
    inner = DictStore()
    store, slept = retrying(inner)
    with pytest.raises(ObjectNotFound):
        store.get("a")
    store.create("a", b"1")
    with pytest.raises(ObjectExists):
        store.create("a", b"2")
    assert slept == []


def test_a_create_that_took_effect_but_reported_failure_succeeds() -> None:
    inner = Broken(2, after=True)
    store, _ = retrying(inner)
    store.create("a", b"ours")
    assert inner.objects == {"a": b"ours"}


@given(failures=st.integers(0, 10_000), uniform=st.floats(0, 1, exclude_max=True))
def test_the_wait_never_overflows_and_keeps_half(failures: int, uniform: float) -> None:
    policy = RetryPolicy()
    wait = policy.delay_ms(failures, uniform)
    assert policy.initial_ms / 2 <= wait <= policy.max_ms


# ---- local files ----


@pytest.mark.parametrize("method", ["put", "create"])
def test_a_local_write_is_synced_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    store = open_store(str(tmp_path))
    events: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def record(name: str) -> Any:
        def call(*args: Any) -> Any:
            if name == "fsync":
                kind = "folder" if Path(f"/proc/self/fd/{args[0]}").resolve().is_dir() else "file"
                events.append(f"sync {kind}")
            else:
                events.append("name")
            return real[name](*args)

        return call

    for name in real:
        monkeypatch.setattr(os, name, record(name))
    getattr(store, method)("new/folder/object", b"data")
    middle = events.index("name")
    assert events[middle - 1] == "sync file"
    assert events[middle + 1 :] == ["sync folder"]
    # The two new folders were made durable in their parents.
    assert events[: middle - 1] == ["sync folder", "sync folder"]


def test_a_crash_between_temporary_file_and_name_leaves_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    monkeypatch.setattr(os, "link", lambda *args: crash())
    with pytest.raises(Crash):
        store.create("epochs/1", b"data")
    monkeypatch.setattr(os, "unlink", lambda *args: None)
    assert list(store.list("")) == []


def test_a_left_over_temporary_file_is_not_an_object(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.put("epochs/1.json", b"1")
    (tmp_path / "epochs" / "2.json#123456").write_bytes(b"half")
    assert [info.path for info in store.list("")] == ["epochs/1.json"]


def test_an_unwritable_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        open_store(str(tmp_path / "file" / "state"))


# ---- counting, opening ----


def test_requests_and_bytes_are_counted_by_kind_failures_included() -> None:
    store = CountingStore(DictStore())
    store.put("a", b"12345")
    store.create("b", b"123")
    with pytest.raises(ObjectExists):
        store.create("b", b"other")
    store.get("a")
    store.head("a")
    list(store.list(""))
    store.delete("a")
    counts = store.counts
    assert (counts.puts, counts.creates, counts.gets) == (1, 2, 1)
    assert (counts.heads, counts.lists, counts.deletes) == (1, 1, 1)
    assert (counts.bytes_written, counts.bytes_read, counts.requests) == (8, 5, 7)


@pytest.mark.parametrize("url", ["ftp://x/y", "s3:///x", "memory://", "file://host/x"])
def test_a_url_that_is_not_a_store_is_a_user_error(url: str) -> None:
    with pytest.raises(UserError) as caught:
        open_store(url)
    assert caught.value.code == "state_url"


@pytest.mark.parametrize("job", ["", "../other", "a/b", "."])
def test_a_job_id_cannot_be_a_path(job: str) -> None:
    with pytest.raises(UserError):
        job_folder(DictStore(), JobId(job))


def test_memory_is_shared_by_name_only() -> None:
    open_store("memory://shared-by-name").put("a", b"1")
    assert open_store("memory://shared-by-name").get("a") == b"1"
    with pytest.raises(ObjectNotFound):
        open_store("memory://another-name").get("a")


def test_the_failing_store_of_these_tests_fails_where_it_says() -> None:
    inner = DictStore()
    store = FailingStore(inner, 1, unavailable, after=True)
    store.put("a", b"1")
    with pytest.raises(StorageError):
        store.put("b", b"2")
    assert set(inner.objects) == {"a", "b"}
    store.put("c", b"3")
