"""Reads offset ranges inside Spark's tasks.

Consumers live in the Python worker that made them, and Spark uses its workers again: to connect
costs more than to read a small micro-batch. Nobody joins a group: what to read is fixed before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from headgate.connectors.kafka.client import Settings, explained
from headgate.connectors.kafka.cuts import OffsetRange
from headgate.connectors.lines import utf8_text
from headgate.connectors.secrets import Secrets
from headgate.core.errors import ExternalError, UserError

MESSAGES_MAX = 10_000
# How long the first of the next messages is waited for before the deadline is looked at.
_POLL_SECONDS = 1.0

# What a message has beside its value: name -> type. The columns of the rows read have a prefix,
# because a table may have columns of these names.
PREFIX = "_kafka_"
FIELDS = {
    "offset": pa.int64(),
    "partition": pa.int32(),
    "topic": pa.string(),
    "timestamp": pa.int64(),
    "key": pa.binary(),
    "headers": pa.map_(pa.string(), pa.binary()),
}


def reader_settings(
    settings: Settings, isolation: str, *, on_lost_data: Literal["fail", "earliest"]
) -> dict[str, Any]:
    """Return the settings of a consumer that reads ranges."""
    return {
        # The end of a range may be known only by an empty answer: it should come soon.
        "fetch.wait.max.ms": 10,
        # A consumer whose queue was full looks again this much later. A second, as the library
        # would have it, is longer than the queue lasts.
        "fetch.queue.backoff.ms": 10,
        **settings,
        # The library insists on one; nobody joins it.
        "group.id": "headgate-reader",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error" if on_lost_data == "fail" else "earliest",
        "isolation.level": isolation,
    }


def row_schema(fields: Sequence[str], *, text: bool) -> pa.Schema:
    """Return the columns of the rows read."""
    value = pa.field("value", pa.string() if text else pa.binary())
    return pa.schema([value, *(pa.field(PREFIX + f, FIELDS[f]) for f in fields)])


# Consumers by their settings: of this process, for as long as it lives.
_consumers: dict[tuple[tuple[str, Any], ...], Consumer] = {}


@dataclass(frozen=True)
class RangeReader:
    """The function given to `mapInArrow`: gets numbers of parts, gives their messages."""

    topic: str
    parts: Sequence[Sequence[OffsetRange]]
    settings: Settings
    secrets: Secrets
    # The fields wanted beside the value, of `FIELDS`.
    fields: tuple[str, ...]
    # The value is text; a message without a value is left out.
    text: bool
    keep_empty: bool
    timeout_seconds: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield from self.read(self.parts[part])

    def read(self, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ranges of different partitions, each partition's in order."""
        key = tuple(sorted(self.settings.items()))
        # It is not there while it reads: what fails in between leaves none behind.
        consumer = _consumers.pop(key, None) or Consumer(dict(self.settings))
        try:
            for messages in self._messages(consumer, ranges):
                yield self._batch(messages)
            consumer.unassign()
        except KafkaException as error:
            consumer.close()
            raise explained(error, f"cannot read topic '{self.topic}'", self.secrets) from error
        except BaseException:
            consumer.close()
            raise
        _consumers[key] = consumer

    def _messages(
        self, consumer: Consumer, ranges: Sequence[OffsetRange]
    ) -> Iterator[list[Message]]:
        ends = {r.partition: r.end for r in ranges}
        places = [TopicPartition(self.topic, r.partition, r.start) for r in ranges]
        consumer.assign(places)
        # That a partition was paused, at the end of an earlier range, is remembered.
        consumer.resume(places)
        left = sum(r.size for r in ranges)
        deadline = time.monotonic() + self.timeout_seconds
        while ends:
            # What is there is taken at once; if nothing is, the first that comes is waited for.
            found = consumer.consume(min(MESSAGES_MAX, max(left, 1)), timeout=0)
            if not found:
                first = consumer.poll(_POLL_SECONDS)
                found = [] if first is None else [first]
            if not found and time.monotonic() > deadline:
                raise ExternalError(
                    f"topic '{self.topic}' gave nothing for {self.timeout_seconds:.0f} s, though "
                    f"messages up to offset {ends} were there: are its brokers up?",
                    code="kafka",
                )
            if found:
                deadline = time.monotonic() + self.timeout_seconds
            wanted = self._take(consumer, found, ends)
            left -= len(wanted)
            if wanted:
                yield wanted

    def _take(
        self, consumer: Consumer, found: list[Message], ends: dict[int, int]
    ) -> list[Message]:
        """Return the messages that belong to their ranges; partitions at their end go.

        Not every offset has a message (transactions end with one that nobody sees, compaction
        takes some out), so the end is also known by what lies behind it. Every call per message
        counts here: ranges are looked at only if a partition has come to the end of its own.
        """
        wanted = [m for m in found if m.error() is None]
        # The last message of each partition.
        last = {m.partition(): m for m in wanted}
        done = [p for p, message in last.items() if message.offset() >= ends.get(p, 0) - 1]
        if done:
            wanted = [m for m in wanted if m.offset() < ends.get(m.partition(), 0)]
        for partition in done:
            self._finish(consumer, partition, ends)
        if len(wanted) < len(found):
            for message in found:
                if (error := message.error()) is not None:
                    self._take_event(consumer, error, message, ends)
        return wanted

    def _take_event(
        self, consumer: Consumer, error: KafkaError, message: Message, ends: dict[int, int]
    ) -> None:
        partition = message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            if message.offset() >= ends.get(partition, 0):
                self._finish(consumer, partition, ends)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise UserError(
                f"topic '{self.topic}' no longer has the messages of partition {partition} that "
                f"come next ({error.str()}): retention has deleted them before they were read. Set "
                "source.on_lost_data = 'earliest' to go on with what is there",
                code="offsets_lost",
            )
        elif not error.retriable() and not _is_transport(error):
            raise KafkaException(error)

    def _finish(self, consumer: Consumer, partition: int, ends: dict[int, int]) -> None:
        if ends.pop(partition, None) is not None and ends:
            consumer.pause([TopicPartition(self.topic, partition)])

    def _batch(self, messages: list[Message]) -> pa.RecordBatch:
        values = pa.array([m.value() for m in messages], pa.binary())
        if values.null_count and not self.keep_empty:
            messages = [m for m in messages if m.value() is not None]
            values = values.drop_null()
        columns = [utf8_text(values) if self.text else values]
        columns += [_FIELD_ARRAYS[field](messages) for field in self.fields]
        return pa.RecordBatch.from_arrays(columns, ["value", *(PREFIX + f for f in self.fields)])


def _is_transport(error: KafkaError) -> bool:
    # The library goes on by itself; whether it succeeds is a question of the deadline.
    return error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
    )


def _timestamps(messages: list[Message]) -> list[int | None]:
    pairs = map(Message.timestamp, messages)
    return [None if kind == TIMESTAMP_NOT_AVAILABLE else millis for kind, millis in pairs]


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    # A name may come twice; the last one counts.
    return list(dict(message.headers() or ()).items())


_FIELD_ARRAYS = {
    "offset": lambda messages: pa.array([m.offset() for m in messages], FIELDS["offset"]),
    "partition": lambda messages: pa.array([m.partition() for m in messages], FIELDS["partition"]),
    "topic": lambda messages: pc.cast(
        pa.array([m.topic() for m in messages]).dictionary_encode(), FIELDS["topic"]
    ),
    "timestamp": lambda messages: pa.array(_timestamps(messages), FIELDS["timestamp"]),
    "key": lambda messages: pa.array([_bytes(m.key()) for m in messages], FIELDS["key"]),
    "headers": lambda messages: pa.array([_headers(m) for m in messages], FIELDS["headers"]),
}


def _bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key
