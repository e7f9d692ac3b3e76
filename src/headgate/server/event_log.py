"""The live events: kept for a while, so that a client that lost its connection misses nothing.

An event's id is `{start of the service}-{number}`. A client that names the last one it saw gets
those after it; one that names an id of another life of the service gets everything that is kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headgate.core.errors import ExternalError
from headgate.core.ids import JobId
from headgate.core.model import JsonValue

# A client that is this many events behind is let go; it comes back and names the last one it saw.
QUEUE_MAX = 5_000


@dataclass(frozen=True)
class LiveEvent:
    """`number` None = not kept: only its newest value counts."""

    kind: str
    # None = it concerns the service as a whole.
    job: JobId | None
    at_ms: int
    data: dict[str, JsonValue]
    number: int | None = None


@dataclass
class Subscription:
    """One client. Filled from any thread, read in the event loop it was made in."""

    job: JobId | None
    loop: asyncio.AbstractEventLoop
    queue: deque[LiveEvent] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    overflowed: bool = False
    closed: bool = False

    def takes(self, event: LiveEvent) -> bool:
        return self.job is None or self.job == event.job

    def take(self) -> list[LiveEvent]:
        """Return what has come since the last call."""
        taken: list[LiveEvent] = []
        while self.queue:
            taken.append(self.queue.popleft())
        return taken


class EventLog:
    """Numbers events, keeps the newest `kept`, and gives them to whoever listens."""

    def __init__(self, *, kept: int, streams_max: int, life: str) -> None:
        self._life = life
        self._kept: deque[LiveEvent] = deque(maxlen=kept)
        self._streams_max = streams_max
        self._number = 0
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._closed = False

    @property
    def streams(self) -> int:
        with self._lock:
            return len(self._subscriptions)

    def publish(
        self,
        kind: str,
        job: JobId | None,
        at_ms: int,
        data: dict[str, JsonValue],
        *,
        keep: bool = True,
    ) -> None:
        """Give an event to everybody; from any thread."""
        with self._lock:
            if keep:
                self._number += 1
            number = self._number if keep else None
            event = LiveEvent(kind=kind, job=job, at_ms=at_ms, data=data, number=number)
            if keep:
                self._kept.append(event)
            for subscription in self._subscriptions:
                if subscription.takes(event):
                    self._give(subscription, event)

    def _give(self, subscription: Subscription, event: LiveEvent) -> None:
        if len(subscription.queue) < QUEUE_MAX:
            subscription.queue.append(event)
        else:
            subscription.overflowed = True
        _wake(subscription)

    def subscribe(self, *, job: JobId | None, last_id: str | None) -> Subscription:
        """Listen from after `last_id` on; None = from now on. Called in the event loop."""
        subscription = Subscription(job=job, loop=asyncio.get_running_loop())
        with self._lock:
            if len(self._subscriptions) >= self._streams_max:
                raise ExternalError(
                    f"there are already {self._streams_max} event streams: close one",
                    code="too_many",
                )
            subscription.closed = self._closed
            if last_id is not None:
                after = self._number_of(last_id)
                subscription.queue.extend(
                    e for e in self._kept if (e.number or 0) > after and subscription.takes(e)
                )
            self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    @contextmanager
    def subscribed(self, *, job: JobId | None, last_id: str | None) -> Iterator[Subscription]:
        """Listen as long as the block runs."""
        subscription = self.subscribe(job=job, last_id=last_id)
        try:
            yield subscription
        finally:
            self.unsubscribe(subscription)

    def close(self) -> None:
        """End all streams: the service stops."""
        with self._lock:
            self._closed = True
            for subscription in self._subscriptions:
                subscription.closed = True
                _wake(subscription)

    def id_of(self, event: LiveEvent) -> str | None:
        return None if event.number is None else f"{self._life}-{event.number}"

    def _number_of(self, last_id: str) -> int:
        life, _, number = last_id.rpartition("-")
        return int(number) if life == self._life and number.isdigit() else 0


def _wake(subscription: Subscription) -> None:
    try:
        subscription.loop.call_soon_threadsafe(subscription.wake.set)
    except RuntimeError:
        # Its loop has ended, and with it whoever would read.
        subscription.closed = True
