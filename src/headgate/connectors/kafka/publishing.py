"""Transactions: how an epoch gets into a topic once, whoever tries and however often.

1. `init_transactions` ends what a predecessor with the same transactional id had begun, and fences
   it: from here on nobody but this producer can commit under this id.
2. The mark is read. What it names is published already, and is left out.
3. One transaction holds the messages and the next mark.

Two who do this at the same time cannot both commit: the second to arrive at 1 fences the first, and
sees at 2 what the first had committed before. So a worker that was thought dead can disturb its
successor, which then begins at 1 again, but can publish nothing twice.

Producers live in the process that made them, with the mark they wrote last: 1 and 2 take longer
than a small transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer

from headgate.connectors.kafka.client import Settings, explained
from headgate.connectors.kafka.cuts import OffsetRange
from headgate.connectors.kafka.marks import Mark, Wanted, parts_done
from headgate.connectors.kafka.messages import Messages
from headgate.connectors.kafka.reading import RangeReader, reader_settings
from headgate.connectors.kafka.topic import Topic
from headgate.connectors.secrets import Secrets
from headgate.core.errors import UserError
from headgate.core.failpoints import failpoint

log = logging.getLogger("headgate.kafka")

# Told of a message that was or was not delivered.
Report = Callable[[KafkaError | None, object], None]

# The marks of all jobs share a topic; each has its partition by its name, so the number of
# partitions is part of the format.
MARK_PARTITIONS = 8
# Fenced or aborted so often in a row, the publish fails: the job recovers and tries again.
TRIES = 4
# So many messages may wait in the library before the next ones are read. That fewer do is noticed
# only by looking: this often.
_WAITING_MAX = 50_000
_LOOK_SECONDS = 0.01
# How long a new producer waits for its first broker, before it is left to the library.
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Target:
    """Where messages and marks go, and under which name."""

    topic: str
    commit_topic: str
    # The transactional id, and the key of the mark.
    name: str
    settings: Settings
    secrets: Secrets
    partitioner: str
    timeout_seconds: float

    @property
    def mark_partition(self) -> int:
        return mark_partition(self.name)


def mark_partition(name: str) -> int:
    # Not Python's hash, which is another one in every process.
    return sum(name.encode()) % MARK_PARTITIONS


class _Kept:
    """A producer that has passed 1 and 2."""

    def __init__(self, producer: Producer, mark: Mark | None) -> None:
        self.producer = producer
        self.mark = mark


# By transactional id: of this process, for as long as it lives.
_producers: dict[str, _Kept] = {}


def publish(
    target: Target,
    wanted: Wanted,
    part: Callable[[int], Iterable[Messages]],
    *,
    in_task: bool = False,
) -> None:
    """Publish what is missing of an epoch; `part` gives the messages of one of its transactions.

    In a task it may be another process that has published the epoch before.
    """
    for attempt in range(1, TRIES + 1):
        try:
            kept = _producers.pop(target.name, None)
            if kept is not None and in_task and not _is_next(kept.mark, wanted):
                # It would find itself fenced, after the first messages.
                kept = None
            if kept is None or parts_done(kept.mark, wanted) == "foreign":
                # Others may have published since the mark that is known here.
                kept = _begin(target)
            _publish(target, wanted, part, kept)
        except KafkaException as error:
            # Whatever became of the transaction, 1 ends it and 2 finds it.
            if attempt == TRIES or not _is_worth_a_try(error.args[0]):
                doing = f"cannot publish epoch {wanted.epoch} to topic '{target.topic}'"
                raise explained(error, doing, target.secrets) from error
            log.warning("publishing to topic %s again: %s", target.topic, error.args[0].str())
            continue
        _producers[target.name] = kept
        return


def _is_next(found: Mark | None, wanted: Wanted) -> bool:
    return found is not None and found.epoch >= wanted.epoch - 1


def _publish(
    target: Target,
    wanted: Wanted,
    part: Callable[[int], Iterable[Messages]],
    kept: _Kept,
) -> None:
    done = parts_done(kept.mark, wanted)
    if done == "foreign":
        raise UserError(_foreign(target, wanted, kept.mark), code="target")
    for number in range(done, wanted.parts):
        mark = wanted.mark(number + 1, kept.mark)
        kept.producer.begin_transaction()
        try:
            for messages in part(number):
                _produce(target, kept.producer, messages)
            failpoint("worker.middle_of_publish")
            kept.producer.produce(
                target.commit_topic, mark.json(), target.name, partition=target.mark_partition
            )
            _commit(target, kept.producer)
        except BaseException as error:
            _abort(kept.producer, error)
            raise
        kept.mark = mark


def _begin(target: Target) -> _Kept:
    producer = Producer(producer_settings(target))
    try:
        # The library looks for a coordinator as soon as it is told to, finds that it has no broker
        # to ask yet, and tries again half a second later.
        producer.list_topics(target.topic, timeout=_CONNECT_SECONDS)
    except KafkaException as error:
        log.info("no broker has answered yet: %s", error.args[0].str())
    producer.init_transactions(target.timeout_seconds)
    return _Kept(producer, read_mark(target))


def producer_settings(target: Target) -> dict[str, Any]:
    timeout_ms = int(target.timeout_seconds * 1_000)
    return {
        # Messages are sent in large batches; the end of a transaction sends the rest at once.
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "transaction.timeout.ms": timeout_ms,
        "partitioner": target.partitioner,
        **target.settings,
        "transactional.id": target.name,
    }


def _produce(
    target: Target, producer: Producer, messages: Messages, report: Report | None = None
) -> None:
    """Hand messages over, in order."""
    topic, keys = target.topic, messages.keys or [None] * len(messages.values)
    for value, key, more in zip(messages.values, keys, _arguments(messages, report), strict=True):
        try:
            producer.produce(topic, value, key, **more)
        except BufferError:
            # Too many wait, or too large ones: the same message comes next, so the order stays.
            _wait(target, producer, len(producer) // 2)
            producer.produce(topic, value, key, **more)
    _wait(target, producer, _WAITING_MAX)


def _arguments(messages: Messages, report: Report | None) -> Iterator[dict[str, Any]]:
    """Yield what each message has beside value and key. The library is faster with less.

    One at a time: a list of them would wake Python's garbage collector again and again.
    """
    common: dict[str, Any] = {} if report is None else {"on_delivery": report}
    count = len(messages.values)
    if messages.headers is not None:
        for at, headers in zip(messages.times or [0] * count, messages.headers, strict=True):
            yield {"timestamp": at, "headers": headers, **common}
    elif messages.times is not None:
        for at in messages.times:
            yield {"timestamp": at, **common}
    else:
        yield from repeat(common, count)


def _wait(target: Target, producer: Producer, messages_max: int) -> None:
    """Wait until the brokers have taken all but so many messages."""
    deadline = time.monotonic() + target.timeout_seconds
    producer.poll(0)
    while len(producer) > messages_max:
        producer.poll(_LOOK_SECONDS)
        if time.monotonic() > deadline:
            raise KafkaException(_nothing_taken())


def _nothing_taken() -> KafkaError:
    return KafkaError(KafkaError._TIMED_OUT, "the brokers take nothing")


def _commit(target: Target, producer: Producer) -> None:
    """Commit, and ask again if the answer is lost: the library knows what it asked."""
    deadline = time.monotonic() + target.timeout_seconds
    while True:
        try:
            producer.commit_transaction(target.timeout_seconds)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _abort(producer: Producer, error: BaseException) -> None:
    """Take back what was sent, so that readers need not wait. If that fails, 1 does it."""
    if isinstance(error, KafkaException) and error.args[0].fatal():
        return
    try:
        producer.abort_transaction(10.0)
    except KafkaException as failure:
        log.info("the transaction was not aborted: %s", failure.args[0].str())


def _is_worth_a_try(error: KafkaError) -> bool:
    fenced = error.code() in (
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError._STATE,
    )
    return fenced or error.retriable() or error.txn_requires_abort()


def _foreign(target: Target, wanted: Wanted, found: Mark | None) -> str:
    at = "" if found is None else f" (generation {found.generation}, epoch {found.epoch})"
    return (
        f"'{target.name}' has published to topic '{target.topic}' before{at}, in a life of the job "
        f"that this one (generation {wanted.generation}, epoch {wanted.epoch}) does not follow: "
        "its state was removed, or this worker should have ended. To publish from the beginning "
        "once more, set another sink.transactional_id_prefix"
    )


def read_mark(target: Target) -> Mark | None:
    """Return the newest mark of a name. Call it after `init_transactions`, or it may be old.

    All of the partition is read, up to its very end. A transaction of another job that is open
    hides what comes after it, our own last mark perhaps: it is waited for. A mark is the last that
    a transaction holds, so this is short, unless a worker died just then: at most until the brokers
    give its transaction up.
    """
    partition = target.mark_partition
    topic = Topic(target.commit_topic, target.settings, target.secrets)
    end = topic.ends([partition], committed_only=False)[partition]
    reader = RangeReader(
        topic=target.commit_topic,
        parts=(),
        settings=reader_settings(target.settings, "read_committed", on_lost_data="earliest"),
        secrets=target.secrets,
        fields=("key",),
        text=False,
        keep_empty=True,
        timeout_seconds=2 * target.timeout_seconds,
    )
    found = None
    for marks in reader.read([OffsetRange(partition, 0, end)] if end else []):
        values, keys = marks.columns
        for at in pc.indices_nonzero(pc.equal(keys, target.name.encode())).to_pylist():
            value = values[at].as_py()
            found = None if value is None else Mark.parse(value)
    return found


# ---- without transactions --------------------------------------------------------------------


def write_plainly(target: Target, messages: Iterable[Messages]) -> None:
    """Send messages and wait until the brokers have them all. To repeat it repeats them."""
    settings = {k: v for k, v in producer_settings(target).items() if k != "transactional.id"}
    name = f"{target.topic}|{sorted(settings.items())}"
    producer = _plain.pop(name, None) or Producer(
        settings | {"enable.idempotence": True, "delivery.report.only.error": True}
    )
    failed: list[KafkaError] = []

    def note(error: KafkaError | None, message: object) -> None:
        if error is not None:
            failed.append(error)

    for chunk in messages:
        _produce(target, producer, chunk, note)
    left = producer.flush(target.timeout_seconds)
    if failed or left:
        raise KafkaException(failed[0] if failed else _nothing_taken())
    _plain[name] = producer


_plain: dict[str, Producer] = {}
