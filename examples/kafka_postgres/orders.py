"""Orders, written to a topic in the background, and what the pipeline must make of them."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer

TOPIC = "orders"
PARTITIONS = 3
SHOPS = 20
CUSTOMERS = 1_000
WINDOW_MS = 10_000
START_MS = 1_700_000_000_000
# Event time that passes from one order to the next.
STEP_MS = 5
# The producer is never further ahead of the broker. A broker that comes back gets what waits one
# partition after the other: it must be less than the watermark allows, or orders would be late.
UNSENT_MAX = 5_000
PAUSE_SECONDS = 0.02
TIMEOUT_SECONDS = 120.0

Sale = tuple[str, int, int, int]
Customer = tuple[str, int, int]


@dataclass(frozen=True)
class Order:
    shop: str
    customer: str
    amount: int
    at_ms: int

    def to_json(self) -> str:
        row = {"shop": self.shop, "customer": self.customer, "amount": self.amount}
        return json.dumps({**row, "at": self.at_ms})


def order(number: int, at_ms: int | None = None) -> Order:
    """Return the order of this number: the same whenever it is asked for."""
    mixed = number * 2_654_435_761 % 2**32
    return Order(
        shop=f"shop {mixed % SHOPS}",
        customer=f"customer {mixed // SHOPS % CUSTOMERS}",
        amount=1 + mixed % 9_973,
        at_ms=START_MS + number * STEP_MS if at_ms is None else at_ms,
    )


class OrderWriter:
    """Writes orders in the background until it is told to stop."""

    def __init__(self, servers: str, per_second: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": int(TIMEOUT_SECONDS * 1000),
                "log_level": 0,
            }
        )
        self._at_once = max(1, round(per_second * PAUSE_SECONDS))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.written: list[Order] = []
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and wait until all is in the topic."""
        self._stopped.set()
        self._thread.join(timeout=TIMEOUT_SECONDS)
        self._flush()

    def write_last(self) -> None:
        """Write an order an hour later to every partition, which closes all windows before it."""
        last_ms = self.written[-1].at_ms + 3_600_000
        for _ in range(PARTITIONS):
            self._write(last_ms)
        self._flush()

    def abandon(self) -> None:
        """Write no more, and forget what is not in the topic yet."""
        self._stopped.set()
        self._producer.purge()

    def _run(self) -> None:
        while not self._stopped.wait(PAUSE_SECONDS):
            self._producer.poll(0)
            if len(self._producer) + self._at_once <= UNSENT_MAX:
                for _ in range(self._at_once):
                    self._write()

    def _write(self, at_ms: int | None = None) -> None:
        number = len(self.written)
        new = order(number, at_ms)
        self._producer.produce(TOPIC, new.to_json(), new.customer, partition=number % PARTITIONS)
        self.written.append(new)

    def _flush(self) -> None:
        left = self._producer.flush(TIMEOUT_SECONDS)
        if left:
            raise RuntimeError(f"the broker did not take {left} orders")


def expected_sales(orders: list[Order]) -> Counter[Sale]:
    """Return a row for each shop and window that is over: the window of the last order is not."""
    amounts: dict[tuple[str, int], list[int]] = defaultdict(list)
    open_from = _window(orders[-1])
    for one in orders:
        if _window(one) < open_from:
            amounts[one.shop, _window(one)].append(one.amount)
    return Counter((*key, len(found), sum(found)) for key, found in amounts.items())


def expected_customers(orders: list[Order]) -> Counter[Customer]:
    amounts: dict[str, list[int]] = defaultdict(list)
    for one in orders:
        amounts[one.customer].append(one.amount)
    return Counter((who, len(found), sum(found)) for who, found in amounts.items())


def read_sales(values: Iterator[bytes]) -> Counter[Sale]:
    """Return what is in the messages of the topic `sales`."""
    rows = map(json.loads, values)
    return Counter((row["shop"], row["started"], row["orders"], row["total"]) for row in rows)


def _window(one: Order) -> int:
    return one.at_ms - one.at_ms % WINDOW_MS
