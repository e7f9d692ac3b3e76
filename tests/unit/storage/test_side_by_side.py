"""Requests side by side: many at a time where the store bears it, answers and errors in order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headgate.core.errors import ObjectNotFound
from headgate.core.ports import ObjectStore
from headgate.storage import CountingStore, PrefixStore, RetryingStore, RetryPolicy, open_store
from headgate.storage.local import LocalStore
from headgate.storage.side_by_side import requests_at_once, side_by_side
from tests.support.stores import DictStore

WAIT_SECONDS = 30


class Meeting(DictStore):
    """A store whose gets wait for each other: they end only if so many are under way at once."""

    requests_at_once = 4

    def __init__(self, needed: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(needed)
        self.asked: list[str] = []

    def get(self, path: str) -> bytes:
        self.asked.append(path)
        self._barrier.wait(WAIT_SECONDS)
        return super().get(path)


def wrapped(store: ObjectStore) -> ObjectStore:
    return PrefixStore(CountingStore(RetryingStore(store, RetryPolicy(tries=1))), "job")


def test_answers_come_in_order_from_as_many_requests_at_a_time_as_the_store_bears() -> None:
    store = Meeting(4)
    paths = [f"{number}" for number in range(8)]
    for path in paths:
        store.put(f"job/{path}", path.encode())
    outer = wrapped(store)
    assert requests_at_once(outer) == 4
    assert list(side_by_side(outer, outer.get, paths)) == [path.encode() for path in paths]


def test_fewer_at_a_time_if_asked_for() -> None:
    store = Meeting(1)
    store.put("a", b"1")
    answers = side_by_side(store, store.get, ["a"] * 3, most=0)
    assert list(answers) == [b"1"] * 3


def test_an_error_comes_in_its_place_and_ends_the_rest() -> None:
    store = Meeting(1)
    paths = ["a", "b", *(str(number) for number in range(100))]
    store.put("a", b"1")
    answers = side_by_side(store, store.get, paths)
    assert next(answers) == b"1"
    with pytest.raises(ObjectNotFound):
        next(answers)


def test_stores_that_do_not_wait_are_asked_one_after_the_other(tmp_path: Path) -> None:
    store = DictStore()
    threads = [threading.current_thread()]

    def note(number: int) -> int:
        threads.append(threading.current_thread())
        return number

    answers = side_by_side(store, note, range(5))
    assert len(threads) == 1, "nothing is asked before somebody wants to know"
    assert list(answers) == [0, 1, 2, 3, 4]
    assert set(threads) == {threading.current_thread()}
    assert requests_at_once(LocalStore(tmp_path)) == 1
    assert requests_at_once(wrapped(open_store(str(tmp_path)))) == 1


def test_a_bucket_is_asked_many_at_a_time() -> None:
    assert requests_at_once(wrapped(open_store("s3://bucket/x?endpoint=http://127.0.0.1:1"))) > 4
