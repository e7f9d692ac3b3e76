"""From an event in one topic to its committed output in another, at 10,000 events a second.

A feeder writes a few events every hundredth of a second, each with the moment of its writing. The
pipeline copies them, and an event's latency ends when a reader of committed messages has it.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.child import CORES, DRIVER_MEMORY
from bench.kafka_topic import PARTITIONS, WAIT_SECONDS
from headgate.components import embedded_controller
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from tests.support.kafka import Broker

EVENTS_PER_SECOND = 10_000
STEPS_PER_SECOND = 100
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


class Feeder:
    """Writes events that have just happened, in turns to the partitions."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.written = 0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": broker.servers, "linger.ms": 0, "log_level": 0}
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        if self._producer.flush(WAIT_SECONDS):
            raise RuntimeError("the feeder could not write everything")

    def _feed(self) -> None:
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            due += 1 / STEPS_PER_SECOND
            now = time.time_ns() // 1_000
            for _ in range(EVENTS_PER_SECOND // STEPS_PER_SECOND):
                value = b'{"id": %d, "sent": %d}' % (self.written, now)
                self._producer.produce(self._topic, value, partition=self.written % PARTITIONS)
                self.written += 1
            self._producer.poll(0)


def measure_latency(folder: Path, broker: Broker, interval_ms: int) -> str:
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
        found = sorted(latencies(broker, name))
    finally:
        controller.close()
    p50, p99 = statistics.median(found), found[round(len(found) * 0.99) - 1]
    return (
        f"latency, a checkpoint every {interval_ms} ms: p50 {p50:.2f} s, p99 {p99:.2f} s "
        f"over {len(found):,} events; every event once"
    )


def latencies(broker: Broker, name: str) -> list[float]:
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
    feeder = Feeder(broker, f"in-{name}")
    feeder.start()
    ids: Counter[int] = Counter()
    found: list[tuple[int, float]] = []
    begun = time.monotonic()
    feeding = WARMING_SECONDS + MEASURED_SECONDS
    stopped = False
    try:
        while not stopped or len(ids) < feeder.written:
            if not stopped and time.monotonic() - begun > feeding:
                feeder.stop()
                stopped = True
            if time.monotonic() - begun > feeding + WAIT_SECONDS:
                raise RuntimeError(f"{feeder.written - len(ids):,} events have not come out")
            messages = [m for m in consumer.consume(1_000, timeout=0.01) if m.error() is None]
            now = time.time_ns() // 1_000
            for row in map(json.loads, (m.value() for m in messages)):
                ids[row["id"]] += 1
                found.append((row["sent"], (now - row["sent"]) / 1e6))
    finally:
        consumer.close()
    # A second copy of an event would have come with the transaction of another epoch: all of the
    # topic is read once more.
    everything = Counter(json.loads(m.value())["id"] for m in broker.read_all(f"out-{name}"))
    if everything != Counter(range(feeder.written)):
        raise RuntimeError("some events are missing, or there twice")
    warm = min(sent for sent, _ in found) + WARMING_SECONDS * 1e6
    return [seconds for sent, seconds in found if sent >= warm]
