"""From an event in one topic to its committed output in another.

A feeder writes a few events every hundredth of a second, each with the moment of its writing. The
pipeline copies them, and an event's latency ends when a reader of committed messages has it. What
counts begins a while after the first output has come. A machine that is too busy even to feed is
an error: its figures would say nothing about the pipeline.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.child import CORES, DRIVER_MEMORY
from bench.feeding import BackgroundFeeder
from bench.kafka_topic import PARTITIONS, WAIT_SECONDS, produce
from headgate.components import embedded_controller
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from tests.support.kafka import Broker

STEPS_PER_SECOND = 100
# The feeder may be so late.
LATE_SECONDS_MAX = 1.0
WARMING_SECONDS = 10.0
MEASURED_SECONDS = 15.0
START_SECONDS = 300.0

SQL = """
CREATE TABLE events (id BIGINT, sent BIGINT) WITH (
  connector = 'kafka', type = 'source', bootstrap_servers = '{servers}', topic = 'in-{name}',
  'source.offset' = 'earliest');
CREATE TABLE copied (id BIGINT, sent BIGINT) WITH (
  connector = 'kafka', type = 'sink', bootstrap_servers = '{servers}', topic = 'out-{name}');
INSERT INTO copied SELECT id, sent FROM events WHERE id >= 0;
"""


class Feeder(BackgroundFeeder):
    """Writes events that have just happened, in turns to the partitions."""

    def __init__(self, broker: Broker, topic: str, events_per_second: int) -> None:
        super().__init__()
        self.written = 0
        self.late_seconds = 0.0
        self._topic = topic
        self._step = events_per_second // STEPS_PER_SECOND
        self._producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})

    def stop(self) -> None:
        super().stop()
        if self._producer.flush(WAIT_SECONDS):
            raise RuntimeError("the feeder could not write everything")

    def _feed(self) -> None:
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            self.late_seconds = max(self.late_seconds, time.monotonic() - due)
            due += 1 / STEPS_PER_SECOND
            now = time.time_ns() // 1_000
            for _ in range(self._step):
                value = b'{"id": %d, "sent": %d}' % (self.written, now)
                produce(self._producer, self._topic, value, partition=self.written % PARTITIONS)
                self.written += 1
            self._producer.poll(0)


def measure_latency(folder: Path, broker: Broker, interval_ms: int, events_per_second: int) -> str:
    """Return a line with the figures. Raises if an event is missing, or there twice."""
    name = f"every-{interval_ms}-ms"
    for topic in (f"in-{name}", f"out-{name}"):
        broker.create_topic(topic, PARTITIONS)
    spec = JobSpec(
        name=name,
        sql=SQL.format(servers=broker.servers, name=name),
        state_url=str(folder / name),
        parallelism=CORES,
        limits=Limits(checkpoint_interval_ms=interval_ms),
        master=f"local[{CORES},4]",
        spark_conf={
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    controller = embedded_controller(spec.state_url)
    try:
        controller.start(take_up=False)
        job = controller.attach_job(spec)
        controller.wait_for(job, lambda status: status.state == "running", START_SECONDS)
        found = sorted(latencies(broker, name, events_per_second))
    finally:
        controller.close()
    p50, p99 = statistics.median(found), found[round(len(found) * 0.99) - 1]
    return (
        f"latency, {events_per_second:,} events/s, a checkpoint every {interval_ms} ms: "
        f"p50 {p50:.2f} s, p99 {p99:.2f} s "
        f"over {len(found):,} events; every event once"
    )


def latencies(broker: Broker, name: str, events_per_second: int) -> list[float]:
    """Feed, and return the seconds that each event took once everything was warm."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(f"out-{name}", p, 0) for p in range(PARTITIONS)])
    feeder = Feeder(broker, f"in-{name}", events_per_second)
    feeder.start()
    found: list[tuple[int, float]] = []
    # When feeding ends: known when the first output has come.
    end: float | None = None
    fed = False
    deadline = time.monotonic() + START_SECONDS
    try:
        while not fed or len(found) < feeder.written:
            messages = [m for m in consumer.consume(1_000, timeout=0.01) if m.error() is None]
            now = time.time_ns() // 1_000
            sent = [json.loads(m.value())["sent"] for m in messages]
            found += [(moment, (now - moment) / 1e6) for moment in sent]
            clock = time.monotonic()
            if found and end is None:
                end = clock + WARMING_SECONDS + MEASURED_SECONDS
                deadline = end + WAIT_SECONDS
            if end is not None and clock > end and not fed:
                feeder.stop()
                fed = True
            if clock > deadline:
                raise RuntimeError(f"{feeder.written - len(found):,} events have not come out")
    finally:
        feeder.stop()
        consumer.close()
    if feeder.late_seconds > LATE_SECONDS_MAX:
        raise RuntimeError(f"the machine is too busy: feeding was {feeder.late_seconds:.1f} s late")
    # An event that came twice may have hidden one that did not: all of the topic is looked at.
    everything = Counter(json.loads(m.value())["id"] for m in broker.read_all(f"out-{name}"))
    if everything != Counter(range(feeder.written)):
        raise RuntimeError("some events are missing, or there twice")
    warm = max(moment for moment, _ in found) - MEASURED_SECONDS * 1e6
    return [seconds for moment, seconds in found if moment >= warm]
