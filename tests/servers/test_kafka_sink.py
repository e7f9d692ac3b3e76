"""The kafka sink against a real broker: what a message has, large epochs, and who is fenced."""

from __future__ import annotations

import json
import pickle
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headgate.connectors.base import Sink
from headgate.connectors.kafka import publishing
from headgate.core.errors import UserError
from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.core.ids import Generation
from headgate.testing import columns, open_sink
from headgate.testing.staging import JOB, StagedEpoch, stage_epoch
from tests.support.kafka import START_SECONDS, Broker

ROWS = columns(n="bigint", word="string")


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"sink-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=2)
    return name


def opened(
    broker: Broker,
    topic: str,
    declared: Any = ROWS,
    *,
    generation: int = 1,
    primary_key: tuple[str, ...] = (),
    **options: Any,
) -> Sink:
    given = {"bootstrap_servers": broker.servers, "topic": topic}
    # Every test is a cluster of its own, as far as marks go.
    given["sink.transactional_id_prefix"] = topic
    updating = options.get("format") == "debezium_json"
    sink = open_sink("kafka", given | options, declared, primary_key=primary_key, updating=updating)
    sink.set_generation(Generation(generation))  # type: ignore[attr-defined]
    return sink


def staged(
    spark: SparkSession, sink: Sink, epoch: int, select: str, state: Any = None, parts: int = 1
) -> StagedEpoch:
    """Stage what a query gives, through Spark as a worker does."""
    frame = sink.prepare(spark.sql(select))
    batches = frame.toArrow().combine_chunks().to_batches()
    size = -(-batches[0].num_rows // parts)
    return stage_epoch(sink, epoch, [batches[0].slice(i * size, size) for i in range(parts)], state)


def rows(first: int, last: int) -> str:
    return (
        f"SELECT id AS n, concat('word ', id) AS word, "
        f"timestamp_millis(1700000000000 + id) AS {TIMESTAMP_COLUMN} FROM range({first}, {last})"
    )


def numbers(broker: Broker, topic: str) -> Counter[int]:
    return Counter(json.loads(m.value())["n"] for m in broker.read_all(topic))


# ---- what a message has ----------------------------------------------------------------------


def test_a_message_has_the_events_time_and_a_key_that_chooses_its_partition(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    sink = opened(broker, topic, **{"sink.key_field": "word"})
    sink.check_target(JOB, resuming=False)
    staged(spark, sink, 1, rows(0, 20)).publish()
    # What another client that works like Java's would choose.
    other = f"{topic}-2"
    broker.create_topic(other, partitions=2)
    producer = Producer(
        {"bootstrap.servers": broker.servers, "partitioner": "murmur2_random", "log_level": 0}
    )
    for n in range(20):
        producer.produce(other, "", f"word {n}")
    assert producer.flush(START_SECONDS) == 0
    wanted = {m.key(): m.partition() for m in broker.read_all(other)}
    found = broker.read_all(topic)
    assert {m.key(): m.partition() for m in found} == wanted
    assert {json.loads(m.value())["n"]: m.timestamp()[1] for m in found} == {
        n: 1_700_000_000_000 + n for n in range(20)
    }


def test_keys_of_every_kind(spark: SparkSession, broker: Broker, topic: str) -> None:
    declared = columns(n="bigint", b="binary", word="string")
    select = f"SELECT 7L AS n, X'00FF' AS b, 'x' AS word, timestamp_millis(0) AS {TIMESTAMP_COLUMN}"
    found = {}
    for epoch, (options, key) in enumerate(
        [
            ({"sink.key_field": "n"}, ()),
            ({"sink.key_field": "b"}, ()),
            ({}, ("n", "word")),
            ({}, ()),
        ],
        1,
    ):
        sink = opened(broker, topic, declared, primary_key=key, generation=epoch, **options)
        sink.check_target(JOB, resuming=False)
        before = len(broker.read_all(topic))
        staged(spark, sink, epoch, select).publish()
        messages = sorted(broker.read_all(topic), key=lambda m: (m.timestamp()[1], m.offset()))
        assert len(messages) == before + 1
        found[epoch] = {m.key() for m in messages}
    assert found[4] == {b"7", b"\x00\xff", b'{"n":7,"word":"x"}', None}


def test_headers_and_time_of_columns(spark: SparkSession, broker: Broker, topic: str) -> None:
    declared = columns(value="string", at="timestamp", h="map<string,string>")
    sink = opened(
        broker,
        topic,
        declared,
        **{"sink.headers_field": "h", "sink.timestamp_field": "at", "format": "json"},
    )
    sink.check_target(JOB, resuming=False)
    select = (
        "SELECT 'x' AS value, timestamp_millis(1234567890123) AS at, map('a', '1') AS h, "
        f"timestamp_millis(0) AS {TIMESTAMP_COLUMN}"
    )
    staged(spark, sink, 1, select).publish()
    (message,) = broker.read_all(topic)
    assert message.headers() == [("a", b"1")]
    assert message.timestamp()[1] == 1_234_567_890_123
    assert json.loads(message.value()) == {"value": "x", "at": "2009-02-13T23:31:30.123"}


def test_changes_of_a_key_have_its_key(spark: SparkSession, broker: Broker, topic: str) -> None:
    sink = opened(broker, topic, format="debezium_json", primary_key=("n",))
    sink.check_target(JOB, resuming=False)
    changes = (
        f"SELECT IF(n > 0, n, NULL) AS n, IF(n > 0, word, NULL) AS word, {OP_COLUMN} FROM VALUES "
        f"(1L, 'a', -1), (1L, 'b', 1), (2L, 'c', 1), (3L, 'd', -1) AS t(n, word, {OP_COLUMN})"
    )
    staged(spark, sink, 1, changes).publish()
    found = {m.key(): json.loads(m.value())["op"] for m in broker.read_all(topic)}
    assert found == {b'{"n":1}': "u", b'{"n":2}': "c", b'{"n":3}': "d"}


@pytest.mark.parametrize(
    ("options", "declared", "select", "value"),
    [
        ({"format": "raw_string"}, columns(value="string"), "'x' AS value", b"x"),
        ({"format": "raw_bytes"}, columns(value="binary"), "X'FF' AS value", b"\xff"),
        ({"format": "csv"}, columns(a="int", b="string"), "1 AS a, 'x,y' AS b", b'1,"x,y"'),
    ],
)
def test_every_format(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    options: dict[str, Any],
    declared: Any,
    select: str,
    value: bytes,
) -> None:
    sink = opened(broker, topic, declared, **options)
    sink.check_target(JOB, resuming=False)
    staged(spark, sink, 1, f"SELECT {select}, timestamp_millis(0) AS {TIMESTAMP_COLUMN}").publish()
    assert [m.value() for m in broker.read_all(topic)] == [value]


# ---- large epochs ----------------------------------------------------------------------------


def test_a_large_epoch_is_published_by_tasks_and_again_at_another_parallelism(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    small = {"sink.shard_size": 100, "sink.transaction_size": 100}
    sink = opened(broker, topic, **small)
    sink.set_session(spark)  # type: ignore[attr-defined]
    sink.check_target(JOB, resuming=False)
    epoch = staged(spark, sink, 1, rows(0, 1_000), parts=4)
    assert epoch.commit["shards"] == 4  # type: ignore[index, call-overload]
    epoch.publish()
    assert numbers(broker, topic) == Counter(range(1_000))
    # A recovery, which has one producer for all shards, or other tasks.
    alone = opened(broker, topic, generation=2, **small)
    alone.check_target(JOB, resuming=True)
    epoch.by(alone).publish()
    epoch.publish()
    assert numbers(broker, topic) == Counter(range(1_000))
    # The next epoch is small: one shard, and what comes after it is not disturbed by the others.
    second = staged(spark, alone, 2, rows(1_000, 1_010), epoch.state)
    assert second.commit["shards"] == 1  # type: ignore[index, call-overload]
    second.publish()
    assert numbers(broker, topic) == Counter(range(1_010))


def test_an_epoch_larger_than_a_transaction_goes_on_where_it_ended(
    spark: SparkSession, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.connectors.kafka.messages.STAGED_BYTES_MAX", 1_000)
    monkeypatch.setattr("headgate.connectors.kafka.messages.SLICE_ROWS", 50)
    sink = opened(broker, topic, **{"sink.transaction_size": 5_000})
    sink.check_target(JOB, resuming=False)
    epoch = staged(spark, sink, 1, rows(0, 1_000))
    assert len(epoch.staged) == 20
    produced = publishing._produce
    calls = []

    def dies(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 9:
            raise RuntimeError("the process dies here")
        produced(*arguments)

    monkeypatch.setattr(publishing, "_produce", dies)
    with pytest.raises(RuntimeError):
        epoch.publish()
    seen = sum(numbers(broker, topic).values())
    assert 0 < seen < 1_000
    monkeypatch.setattr(publishing, "_produce", produced)
    epoch.by(opened(broker, topic, generation=2)).publish()
    assert numbers(broker, topic) == Counter(range(1_000))


# ---- who may publish -------------------------------------------------------------------------


def test_a_worker_that_was_thought_dead_disturbs_and_repeats_nothing(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    """Both have producers of their own, as two processes have."""
    sink = opened(broker, topic)
    sink.check_target(JOB, resuming=False)
    epochs = [staged(spark, sink, 1, rows(0, 10))]
    for number in range(2, 7):
        select = rows(10 * (number - 1), 10 * number)
        epochs.append(staged(spark, sink, number, select, epochs[0].state))
    worlds: list[dict[str, Any]] = [{}, {}]

    def publish(world: int, epoch: int) -> None:
        publishing._producers.clear()
        publishing._producers.update(worlds[world])
        epochs[epoch - 1].publish()
        worlds[world] = dict(publishing._producers)

    for world, epoch in [(0, 1), (0, 2), (1, 2), (1, 3), (0, 3), (0, 1), (1, 4), (0, 2), (1, 5)]:
        publish(world, epoch)
    publish(0, 6)
    publish(1, 6)
    publishing._producers.clear()
    assert numbers(broker, topic) == Counter(range(60))


def test_a_job_whose_state_was_removed_is_refused_until_it_has_another_name(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    first = opened(broker, topic, generation=5)
    first.check_target(JOB, resuming=False)
    staged(spark, first, 1, rows(0, 10)).publish()
    with pytest.raises(UserError, match=r"sink\.transactional_id_prefix") as caught:
        opened(broker, topic, generation=1).check_target(JOB, resuming=False)
    assert caught.value.code == "target"
    # Its generations may have come further since: then it is the epoch that tells.
    later = opened(broker, topic, generation=6)
    later.check_target(JOB, resuming=False)
    with pytest.raises(UserError, match="does not follow"):
        staged(spark, later, 1, rows(0, 10)).publish()
    assert numbers(broker, topic) == Counter(range(10))
    named = opened(broker, topic, **{"sink.transactional_id_prefix": f"{topic}-again"})
    named.check_target(JOB, resuming=False)
    staged(spark, named, 1, rows(0, 10)).publish()
    assert numbers(broker, topic) == Counter([*range(10), *range(10)])


def test_an_open_transaction_of_another_job_hides_no_mark(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    sink = opened(broker, topic)
    sink.check_target(JOB, resuming=False)
    epoch = staged(spark, sink, 1, rows(0, 10))
    place = publishing.mark_partition(f"{topic}.{JOB}.t.0")
    # It is open before our mark, and until after we are asked again.
    other = Producer(
        {
            "bootstrap.servers": broker.servers,
            "transactional.id": uuid.uuid4().hex,
            "transaction.timeout.ms": 5_000,
            "log_level": 0,
        }
    )
    other.init_transactions(START_SECONDS)
    other.begin_transaction()
    other.produce("headgate-commits", "", "somebody", partition=place)
    assert other.flush(START_SECONDS) == 0
    epoch.publish()
    publishing._producers.clear()
    again = pickle.loads(pickle.dumps(sink))
    epoch.by(again).publish()
    assert numbers(broker, topic) == Counter(range(10))


# ---- the target ------------------------------------------------------------------------------


def test_a_topic_is_created_only_on_request(broker: Broker) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    with pytest.raises(UserError, match=r"sink\.create_topic = true") as caught:
        opened(broker, name).check_target(JOB, resuming=False)
    assert caught.value.code == "topic_missing"
    options = {"sink.create_topic": True, "sink.partitions": 3}
    opened(broker, name, **options).check_target(JOB, resuming=False)
    assert broker.partitions(name) == {0, 1, 2}


@pytest.mark.parametrize(
    ("partitions", "policy", "message"),
    [(8, "delete", "cleanup.policy = delete"), (1, "compact", "has 1 partitions")],
)
def test_marks_that_would_be_lost_are_refused(
    broker: Broker, topic: str, partitions: int, policy: str, message: str
) -> None:
    marks = f"marks-{uuid.uuid4().hex[:8]}"
    broker.create_topic(marks, partitions, **{"cleanup.policy": policy})
    with pytest.raises(UserError) as caught:
        opened(broker, topic, **{"sink.commit_topic": marks}).check_target(JOB, resuming=False)
    assert message in caught.value.message
    assert caught.value.code == "commit_topic"


def test_staged_messages_are_in_files_that_can_be_read_at_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    sink = opened(broker, topic)
    epoch = staged(spark, sink, 1, rows(0, 400_000))
    assert len(epoch.staged) > 1
    assert sum(file.rows for file in epoch.staged) == 400_000
