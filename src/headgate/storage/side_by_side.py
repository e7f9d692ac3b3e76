"""Many requests of one kind, several at a time where the store bears it.

A request to an object store is mostly waiting. What a checkpoint of twenty operators with a
thousand subtasks each needs would take minutes one after the other. Local files and stores in
memory do not wait, so there everything stays one after the other, and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headgate.core.ports import ObjectStore

T = TypeVar("T")
R = TypeVar("R")


def requests_at_once(store: ObjectStore) -> int:
    """Return how many requests may be under way at the same time; 1 unless the store says more."""
    allowed = getattr(store, "requests_at_once", 1)
    return allowed if isinstance(allowed, int) else 1


def side_by_side(
    store: ObjectStore, call: Callable[[T], R], items: Sequence[T], *, most: int | None = None
) -> Iterator[R]:
    """Call for every item; yield the answers in the order of the items.

    The first error is raised in its place; then what has not begun is left out, and what has begun
    comes to its end first. `most` lowers what the store allows.
    """
    width = min(requests_at_once(store), len(items))
    if most is not None:
        width = max(1, min(width, most))
    if width <= 1:
        yield from map(call, items)
        return
    pool = ThreadPoolExecutor(width, thread_name_prefix="requests")
    try:
        yield from pool.map(call, items)
    finally:
        pool.shutdown(cancel_futures=True)
