"""How fast the kafka sink publishes an epoch, beside a plain producer with a transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.child import CORES
from bench.kafka_topic import PARTITIONS, WAIT_SECONDS, PlainReader, produce
from bench.staging import stage_rows
from bench.ways import Way
from headgate.connectors.base import Sink
from headgate.core.checkpoint import StagedFile
from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.core.ids import Generation, JobId
from headgate.testing import StagedEpoch, columns, open_sink
from tests.support.kafka import Broker

SMALL_PART = 10
FIRST_MS = 1_767_225_600_000
ROWS = f"""
SELECT id AS n, concat('word ', id * 7919 % 10007) AS word, id / 7D AS amount,
  timestamp_millis({FIRST_MS} + id) AS at,
  timestamp_millis({FIRST_MS} + id) AS {TIMESTAMP_COLUMN}
FROM range(0, {{rows}}, 1, 1)
"""
COLUMNS = columns(n="bigint", word="string", amount="double", at="timestamp")


def sink_ways(spark: SparkSession, broker: Broker, folder: Path, rows: int) -> dict[str, Way]:
    """Return the ways to write a large epoch, and a small one."""
    ways: dict[str, Way] = {}
    for size, count in (("large", rows), ("small", rows // SMALL_PART)):
        bare, peer = f"plain producer, {size}, no times", f"plain producer, {size}"
        driver = SinkRounds(spark, broker, folder, f"{size}-driver", count, shard_bytes=1 << 40)
        without = PlainRounds(broker, f"{size}-bare", driver.values(), times=False)
        ways[bare] = Way(peer, count, without.run, without.check, without.prepare)
        plain = PlainRounds(broker, f"{size}-plain", driver.values(), times=True)
        ways[peer] = Way(peer, count, plain.run, plain.check, plain.prepare)
        rounds = {f"sink, {size}, by the driver": driver}
        if size == "large":
            # As many shards as there are subtasks.
            tasks = SinkRounds(spark, broker, folder, f"{size}-tasks", count, shard_bytes=1_000)
            rounds[f"sink, {size}, by tasks"] = tasks
        for name, each in rounds.items():
            ways[name] = Way(peer, count, each.run, each.check, each.prepare)
        staging = SinkRounds(spark, broker, folder, f"{size}-staged", count, shard_bytes=1 << 40)
        name = f"sink, {size}, with staging on one core"
        ways[name] = Way(peer, count, staging.stage_and_run, staging.check, staging.note_ends)
    return ways


class _Rounds:
    """A topic that grows by the same rows in every round."""

    def __init__(self, broker: Broker, topic: str, rows: int) -> None:
        broker.create_topic(topic, PARTITIONS)
        self.topic = topic
        self._rows = rows
        self._reader = PlainReader(broker, topic)
        self._ends: dict[int, int] = {}

    def note_ends(self) -> None:
        self._ends = self._reader.ends()

    def check(self, _: Any) -> None:
        """Read what has come since, as a reader of committed messages: every row once."""
        found = [
            json.loads(m.value())["n"]
            for messages in self._reader.messages(self._ends, self._rows)
            for m in messages
        ]
        if sorted(found) != list(range(self._rows)):
            raise RuntimeError(f"{self.topic} has {len(found):,} rows, not each of them once")
        if (
            sum(self._reader.ends().values())
            > sum(self._ends.values()) + self._rows + 2 * PARTITIONS
        ):
            raise RuntimeError(f"{self.topic} has more than {self._rows:,} rows")


class PlainRounds(_Rounds):
    """One producer, one transaction a round. The sink's messages have the times of their events.

    A message with a time of its own takes another way through the client library, which is slower.
    """

    def __init__(self, broker: Broker, topic: str, values: list[bytes], *, times: bool) -> None:
        super().__init__(broker, topic, len(values))
        self._values = values
        self._times = [FIRST_MS + n for n in range(len(values))] if times else None
        self._producer = Producer(
            {
                "bootstrap.servers": broker.servers,
                "transactional.id": topic,
                # Those of the sink, with which a producer is faster than without.
                "linger.ms": 20,
                "batch.size": 1_000_000,
            }
        )
        self._producer.init_transactions(WAIT_SECONDS)

    prepare = _Rounds.note_ends

    def run(self) -> None:
        self._producer.begin_transaction()
        if self._times is None:
            for value in self._values:
                produce(self._producer, self.topic, value)
        else:
            for value, at in zip(self._values, self._times, strict=True):
                produce(self._producer, self.topic, value, timestamp=at)
        self._producer.commit_transaction(WAIT_SECONDS)


@dataclass(frozen=True)
class ReadFolder:
    """Reads staged files where tasks can, too."""

    folder: Path

    def __call__(self, file: StagedFile) -> bytes:
        return (self.folder / file.path).read_bytes()


class SinkRounds(_Rounds):
    """One sink, an epoch a round."""

    def __init__(
        self,
        spark: SparkSession,
        broker: Broker,
        folder: Path,
        topic: str,
        rows: int,
        *,
        shard_bytes: int,
    ) -> None:
        super().__init__(broker, topic, rows)
        options = {
            "bootstrap_servers": broker.servers,
            "topic": topic,
            "sink.transactional_id_prefix": topic,
            "sink.shard_size": shard_bytes,
            "sink.transaction_size": 1 << 40,
        }
        sink: Any = open_sink("kafka", options, COLUMNS)
        sink.set_generation(Generation(1))
        sink.set_session(spark)
        self._sink: Sink = sink
        self._job = JobId("bench")
        self._sink.check_target(self._job, resuming=False)
        prepared = sink.prepare(spark.sql(ROWS.format(rows=rows))).toArrow()
        self._batch: pa.RecordBatch = prepared.combine_chunks().to_batches()[0]
        self._folder = ReadFolder(folder / topic)
        self._epoch = 0
        self._state: Any = None
        self._staged: StagedEpoch | None = None

    def values(self) -> list[bytes]:
        """Return what the messages hold."""
        from headgate.connectors.kafka.messages import staged_messages

        staged = self._stage()
        found = (staged_messages(staged.stored[file.path]) for file in staged.staged)
        return [value or b"" for chunks in found for chunk in chunks for value in chunk.values]

    def prepare(self) -> None:
        self.note_ends()
        self._staged = self._stage()
        for path, data in self._staged.stored.items():
            file = self._folder.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def run(self) -> None:
        staged = self._staged
        assert staged is not None
        self._sink.publish(self._job, staged.epoch, staged.staged, staged.commit, self._folder)

    def stage_and_run(self) -> None:
        self._stage().publish()

    def _stage(self) -> StagedEpoch:
        self._epoch += 1
        staged = stage_rows(
            self._sink,
            self._epoch,
            self._batch,
            job=self._job,
            subtasks=CORES,
            state=self._state,
        )
        self._state = staged.state
        return staged
