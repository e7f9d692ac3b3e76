"""The kafka source against a real broker: where it begins, what a row knows, what can be lost."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.sql import SparkSession

from headgate.connectors.base import Source
from headgate.connectors.registry import connector
from headgate.core.errors import UserError
from headgate.core.model import JsonValue
from headgate.operators import SourceSpec
from headgate.operators.source.spec import MetadataColumn
from headgate.testing import columns
from tests.support.kafka import START_SECONDS, Broker

NUMBERS = columns(n="bigint")
# Longer than any interval at which the source looks for partitions.
LATER_MS = 3_600_000


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"source-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=2)
    return name


def opened(
    broker: Broker,
    topic: str,
    declared: Any = NUMBERS,
    metadata: tuple[MetadataColumn, ...] = (),
    event_time: str | None = None,
    **options: Any,
) -> Source:
    found = connector("kafka")
    given = {"bootstrap_servers": broker.servers, "topic": topic, "source.offset": "earliest"}
    normalized = found.validate("source", given | options, declared)
    return found.open_source(
        SourceSpec(
            table="t",
            connector="kafka",
            options=normalized,
            columns=declared,
            metadata=metadata,
            event_time=event_time,
            updating=found.is_updating("source", normalized),
        )
    )


def numbers(*values: int) -> list[str]:
    return [json.dumps({"n": n}) for n in values]


def read(spark: SparkSession, source: Source, start: JsonValue, end: JsonValue) -> list[Any]:
    return source.read(spark, start, end, 2).collect()


def everything(spark: SparkSession, source: Source, position: JsonValue) -> list[int]:
    cut = source.plan_cut(position, 1_000_000, LATER_MS)
    return sorted(row.n for row in read(spark, source, position, cut.end))


# ---- where it begins -------------------------------------------------------------------------


def test_a_new_job_begins_where_it_is_told(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.produce(topic, numbers(1, 2, 3))
    between_ms = 1 + max(m.timestamp()[1] for m in broker.read_all(topic))
    latest = opened(broker, topic, **{"source.offset": "latest"})
    from_here = latest.initial_position()
    deadline = time.monotonic() + START_SECONDS
    while time.time() * 1_000 < between_ms:
        assert time.monotonic() < deadline
    broker.produce(topic, numbers(4, 5))
    assert everything(spark, latest, from_here) == [4, 5]
    earliest = opened(broker, topic)
    assert everything(spark, earliest, earliest.initial_position()) == [1, 2, 3, 4, 5]
    at = opened(broker, topic, **{"source.timestamp": between_ms})
    assert everything(spark, at, at.initial_position()) == [4, 5]


def test_a_group_is_gone_on_from_and_shows_the_checkpoints(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.produce(topic, numbers(1, 2, 3, 4), keys=["a", "a", "a", "a"])
    group = uuid.uuid4().hex
    # As another system has left it: Flink, Spark, or a program of the user's.
    other = Consumer({"bootstrap.servers": broker.servers, "group.id": group, "log_level": 0})
    (place,) = {m.partition() for m in broker.read_all(topic)}
    other.commit(offsets=[TopicPartition(topic, place, 3)], asynchronous=False)
    source = opened(broker, topic, **{"source.offset": "group", "source.group_id": group})
    start = source.initial_position()
    assert everything(spark, source, start) == [4]
    end = source.plan_cut(start, 100, LATER_MS).end
    source.checkpointed(end)  # type: ignore[attr-defined]
    (shown,) = other.committed([TopicPartition(topic, place)], timeout=START_SECONDS)
    other.close()
    assert shown.offset == 4


# ---- what a row knows ------------------------------------------------------------------------


def test_a_row_knows_what_its_message_knows(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    producer.produce(
        topic, '{"n": 7}', "k", timestamp=1_700_000_000_123, headers=[("a", b"1"), ("b", None)]
    )
    assert producer.flush(START_SECONDS) == 0
    kinds = {
        "offset": "bigint",
        "offset_id": "bigint",
        "partition": "int",
        "topic": "string",
        "timestamp": "bigint",
        "key": "string",
        "headers": "map<string,string>",
    }
    metadata = tuple(MetadataColumn(name=f"m_{k}", type=t, key=k) for k, t in kinds.items())
    metadata += (MetadataColumn(name="at", type="timestamp", key="timestamp"),)
    source = opened(broker, topic, metadata=metadata)
    start = source.initial_position()
    (row,) = read(spark, source, start, source.plan_cut(start, 10, 0).end)
    (message,) = broker.read_all(topic)
    assert row.n == 7
    assert (row.m_offset, row.m_offset_id, row.m_partition) == (0, 0, message.partition())
    assert (row.m_topic, row.m_key) == (topic, "k")
    assert row.m_timestamp == 1_700_000_000_123
    assert row.m_headers == {"a": "1", "b": None}
    # The time of the message is the event time, unless the table names another.
    assert row.at == row._event_time


@pytest.mark.parametrize("event_time", [None, "n"])
def test_a_bad_row_fails_or_is_left_out(
    spark: SparkSession, broker: Broker, topic: str, event_time: str | None
) -> None:
    broker.produce(topic, ['{"n": 1}', '{"n": "x"}', b"\xff\xfe", None, '{"n": 2}'])
    source = opened(broker, topic, event_time=event_time, bad_data="drop")
    start = source.initial_position()
    end = source.plan_cut(start, 10, 0).end
    rows = read(spark, source, start, end)
    # A message without a value, as in a compacted topic, has no row and is not a bad one.
    assert sorted((row.n or 0, row._bad) for row in rows) == [
        (0, True),
        (0, True),
        (1, False),
        (2, False),
    ]
    strict = opened(broker, topic, event_time=event_time)
    with pytest.raises(Exception, match="headgate bad data: table t: not a json row"):
        read(spark, strict, start, end)


def test_every_format(spark: SparkSession, broker: Broker) -> None:
    cases: list[tuple[dict[str, Any], Any, list[Any], list[tuple[Any, ...]]]] = [
        ({"format": "csv"}, columns(a="bigint", b="string"), ['1,"x,y"'], [(1, "x,y")]),
        ({"format": "raw_string"}, columns(value="string"), ["x", None], [("x",), (None,)]),
        ({"format": "raw_bytes"}, columns(value="binary"), [b"\xff"], [(b"\xff",)]),
        (
            {"format": "json", "json.unstructured": True},
            columns(value="string"),
            ['{"a": 1}'],
            [('{"a": 1}',)],
        ),
        (
            {"format": "debezium_json"},
            columns(n="bigint"),
            ['{"before": {"n": 1}, "after": {"n": 2}, "op": "u"}', None],
            [(1, -1), (2, 1)],
        ),
    ]
    for options, declared, values, wanted in cases:
        name = f"format-{uuid.uuid4().hex[:8]}"
        broker.create_topic(name)
        broker.produce(name, values)
        for event_time in (None, "declared"):
            source = opened(broker, name, declared, event_time=event_time, **options)
            start = source.initial_position()
            frame = source.read(spark, start, source.plan_cut(start, 10, 0).end, 2)
            if "_event_time" in frame.columns:
                frame = frame.drop("_event_time")
            assert [tuple(row) for row in frame.collect()] == wanted, options


# ---- what changes while it runs --------------------------------------------------------------


def test_partitions_that_are_added_are_found(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.produce(topic, numbers(1, 2))
    source = opened(broker, topic)
    start = source.initial_position()
    here = source.plan_cut(start, 100, 0).end
    broker.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(START_SECONDS)
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    producer.produce(topic, '{"n": 3}', partition=3)
    assert producer.flush(START_SECONDS) == 0
    cut = source.plan_cut(here, 100, LATER_MS)
    assert [row.n for row in read(spark, source, here, cut.end)] == [3]
    # Partitions that had nothing are carried forward.
    assert cut.end["offsets"].keys() >= here["offsets"].keys()  # type: ignore[index, union-attr]
    assert set(cut.lags) == {"0", "1", "2", "3"}


def test_a_cut_ends_before_a_transaction_that_is_open(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    keys = ["a"]
    broker.produce(topic, numbers(1), keys=keys)
    (place,) = {m.partition() for m in broker.read_all(topic)}
    settings = {"bootstrap.servers": broker.servers, "log_level": 0}
    other = Producer({**settings, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(START_SECONDS)
    other.begin_transaction()
    other.produce(topic, '{"n": 2}', "a")
    assert other.flush(START_SECONDS) == 0
    broker.produce(topic, numbers(3), keys=keys)
    source = opened(broker, topic)
    start = source.initial_position()
    first = source.plan_cut(start, 100, 0).end
    assert [row.n for row in read(spark, source, start, first)] == [1]
    other.commit_transaction(START_SECONDS)
    second = first
    deadline = time.monotonic() + START_SECONDS
    while second["offsets"] != {**first["offsets"], str(place): 4}:  # type: ignore[index, dict-item]
        # The brokers say that it is committed a moment before readers see it.
        assert time.monotonic() < deadline
        second = source.plan_cut(first, 100, 0).end
    for _ in range(2):
        assert [row.n for row in read(spark, source, start, first)] == [1]
        assert [row.n for row in read(spark, source, first, second)] == [2, 3]
    loose = opened(broker, topic, **{"source.read_mode": "read_uncommitted"})
    assert everything(spark, loose, loose.initial_position()) == [1, 2, 3]


def lose_by_retention(broker: Broker, topic: str) -> None:
    places = {
        TopicPartition(topic, p): 0
        for p in broker.admin.list_topics(topic, timeout=START_SECONDS).topics[topic].partitions
    }
    gone = [TopicPartition(tp.topic, tp.partition, 2) for tp in places]
    for future in broker.admin.delete_records(gone).values():
        future.result(START_SECONDS)


def make_anew(broker: Broker, topic: str) -> None:
    broker.admin.delete_topics([topic])[topic].result(START_SECONDS)
    deadline = time.monotonic() + START_SECONDS
    while topic in broker.topics():
        assert time.monotonic() < deadline
    broker.create_topic(topic, partitions=2)
    fill(broker, topic, 100)


def fill(broker: Broker, topic: str, first: int = 0) -> None:
    """Three messages for each of two partitions."""
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    for n in range(6):
        producer.produce(topic, json.dumps({"n": first + n}), partition=n % 2)
    assert producer.flush(START_SECONDS) == 0


@pytest.mark.parametrize(
    ("lose", "code", "left"),
    [
        (lose_by_retention, "offsets_lost", [4, 5]),
        (make_anew, "topic_changed", [100, 101, 102, 103, 104, 105]),
    ],
)
def test_what_is_lost_is_named_and_can_be_gone_around(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    lose: Callable[[Broker, str], None],
    code: str,
    left: list[int],
) -> None:
    fill(broker, topic)
    source = opened(broker, topic)
    start = source.initial_position()
    planned = source.plan_cut(start, 100, 0).end
    lose(broker, topic)
    with pytest.raises(UserError, match=r"source\.on_lost_data = 'earliest'") as caught:
        source.plan_cut(start, 100, LATER_MS)
    assert caught.value.code == code
    if code == "offsets_lost":
        # It happened between the cut and the reading.
        with pytest.raises(Exception, match="no longer has the messages"):
            read(spark, source, start, planned)
    lenient = opened(broker, topic, **{"source.on_lost_data": "earliest"})
    found, here = [], start
    for number in range(3):
        cut = lenient.plan_cut(here, 100, number * LATER_MS)
        found += [row.n for row in read(spark, lenient, here, cut.end)]
        here = cut.end
    assert sorted(found) == left


def test_a_compacted_topic_gives_the_same_rows_on_every_replay(
    spark: SparkSession, broker: Broker
) -> None:
    name = f"compacted-{uuid.uuid4().hex[:8]}"
    broker.create_topic(
        name,
        **{
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
        },
    )
    for n in range(20):
        broker.produce(name, numbers(n), keys=["same"])
    deadline = time.monotonic() + START_SECONDS
    while len(broker.read_all(name)) > 15:
        # A closed segment is compacted; it is closed when the next message comes.
        broker.produce(name, numbers(100), keys=["last"])
        assert time.monotonic() < deadline, "the broker does not compact"
    source = opened(broker, name)
    start = source.initial_position()
    cut = source.plan_cut(start, 1_000, 0)
    rows = [row.n for row in read(spark, source, start, cut.end)]
    assert 0 not in rows
    assert 0 < len(rows) < cut.rows
    assert rows == [row.n for row in read(spark, source, start, cut.end)]


# ---- errors ----------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_named(broker: Broker) -> None:
    with pytest.raises(UserError, match=r"topic 'nowhere'.*create it") as caught:
        opened(broker, "nowhere").initial_position()
    assert caught.value.code == "topic_missing"


def test_brokers_that_are_silent_for_a_moment_are_waited_for(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.connectors.kafka.topic.REQUEST_SECONDS", 0.5)
    fill(broker, topic)
    source = opened(broker, topic)
    start = source.initial_position()
    assert source.plan_cut(start, 2, 0).lag_rows == 4
    broker.freeze()
    try:
        cut = source.plan_cut(start, 2, 0)
    finally:
        broker.thaw()
    # It has something to read, so it does not count as idle.
    assert (cut.end, cut.rows, cut.lag_rows) == (start, 0, 4)
    assert source.plan_cut(start, 100, 0).rows == 6
