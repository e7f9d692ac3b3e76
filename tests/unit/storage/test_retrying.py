"""Errors that may pass are tried again, all others are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.ports import ObjectInfo
from headgate.storage import RetryingStore, RetryPolicy
from tests.support.stores import DictStore


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


class Interrupted(DictStore):
    """Every listing breaks off after two names."""

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        for number, info in enumerate(super().list(prefix, after=after)):
            if number == 2:
                raise StorageError("no answer")
            yield info


def test_a_listing_that_breaks_off_goes_on_behind_the_last_name() -> None:
    inner = Interrupted()
    for number in range(7):
        inner.put(str(number), b"x")
    store, slept = retrying(inner, tries=2)
    assert [info.path for info in store.list("")] == list("0123456")
    assert len(slept) == 3
