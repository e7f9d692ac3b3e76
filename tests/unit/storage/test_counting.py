"""Requests and bytes, as a provider would bill them."""

from __future__ import annotations

import pytest

from headgate.core.errors import ObjectExists
from headgate.storage import CountingStore
from tests.support.stores import DictStore


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
