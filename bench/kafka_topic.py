"""The messages of the Kafka benchmark, and what a plain client does with them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.kafka import Broker

PARTITIONS = 2
CONSUMED_MAX = 10_000
WAIT_SECONDS = 60.0


def values_of(rows: int) -> list[bytes]:
    """Return rows as JSON of about 100 bytes."""
    return [
        json.dumps(
            {
                "n": n,
                "word": f"word {n * 7919 % 10_007}",
                "amount": n / 7,
                "at": f"2026-01-01T00:{n // 60_000 % 60:02}:{n // 1_000 % 60:02}.{n % 1_000:03}Z",
            }
        ).encode()
        for n in range(rows)
    ]


def fill(broker: Broker, topic: str, values: list[bytes]) -> None:
    """Create a topic of two partitions that holds the values in turns."""
    broker.create_topic(topic, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": broker.servers, "linger.ms": 20, "batch.size": 1_000_000}
    )
    for n, value in enumerate(values):
        produce(producer, topic, value, partition=n % PARTITIONS)
    if producer.flush(WAIT_SECONDS):
        raise RuntimeError(f"topic '{topic}' could not be filled")


def produce(producer: Producer, topic: str, value: bytes, **more: Any) -> None:
    """Hand a message over; if too many wait, after some of them were sent."""
    while True:
        try:
            producer.produce(topic, value, **more)
            return
        except BufferError:
            producer.poll(0.1)


class PlainReader:
    """A consumer as a program of one's own would use it, kept from one round to the next."""

    def __init__(self, broker: Broker, topic: str, **settings: Any) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.servers,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **settings,
            }
        )

    def messages(self, starts: dict[int, int], rows: int) -> Iterator[list[Message]]:
        """Yield so many messages, from these offsets on."""
        places = [TopicPartition(self._topic, p, offset) for p, offset in starts.items()]
        self._consumer.assign(places)
        left, deadline = rows, time.monotonic() + WAIT_SECONDS
        while left > 0:
            found = self._consumer.consume(min(left, CONSUMED_MAX), timeout=1.0)
            good = [m for m in found if m.error() is None]
            for message in found:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{left:,} messages of '{self._topic}' are missing")
            left -= len(good)
            yield good
        self._consumer.unassign()

    def ends(self) -> dict[int, int]:
        """Return the offsets behind the last committed messages."""
        return {
            p: self._consumer.get_watermark_offsets(TopicPartition(self._topic, p), WAIT_SECONDS)[1]
            for p in range(PARTITIONS)
        }

    def close(self) -> None:
        self._consumer.close()
