"""A pipeline between topics, and its answer, which is known without running anything.

A producer writes numbers as fast as it can to a topic of three partitions. The pipeline counts and
sums them in windows into another topic, and passes every hundredth on into a third.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from tests.faults.counting import SETTINGS
from tests.support.kafka import START_SECONDS, Broker
from tests.support.stand import Stand

PARTITIONS = 3
KEYS = 7
WINDOW_MS = 10_000
EVERY = 100
START_MS = 1_700_000_000_000
# A time that no number reaches: it closes every window.
END_MS = START_MS + 10**10

SQL = """
CREATE TABLE numbers (
  n BIGINT NOT NULL, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL '60 seconds'
) WITH (connector = 'kafka', type = 'source', bootstrap_servers = '{servers}', topic = 'numbers',
        'source.offset' = 'earliest', 'source.group_id' = 'watch');
CREATE TABLE hundreds (n BIGINT)
WITH (connector = 'kafka', type = 'sink', bootstrap_servers = '{servers}', topic = 'hundreds');
CREATE TABLE totals (k BIGINT, started TIMESTAMP, n BIGINT, total BIGINT)
WITH (connector = 'kafka', type = 'sink', bootstrap_servers = '{servers}', topic = 'totals',
      'sink.key_field' = 'k', 'json.timestamp_format' = 'unix_millis',
      'sink.shard_size' = 2000);
INSERT INTO hundreds SELECT n FROM numbers WHERE n >= 0 AND n % 100 = 0;
INSERT INTO totals SELECT k, window.start, n, total FROM (
  SELECT n % 7 AS k, tumble(interval '10 seconds') AS window, count(*) AS n, sum(n) AS total
  FROM numbers WHERE n >= 0 GROUP BY k, window
);
"""


class Numbers:
    """Writes numbers in the background, until it is told to stop."""

    def __init__(self, broker: Broker, *, pause_rows: int = 20_000) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": broker.servers,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        self._stopped = threading.Event()
        self._pause_rows = pause_rows
        self.written = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            for _ in range(500):
                n = self.written
                self._write(n, START_MS + n, n % PARTITIONS)
                self.written += 1
            # Not more than a few seconds ahead of the broker, which may be gone for a while.
            while len(self._producer) > self._pause_rows and not self._stopped.is_set():
                self._producer.poll(0.1)
            self._producer.poll(0)
            self._stopped.wait(0.02)

    def _write(self, n: int, at_ms: int, partition: int) -> None:
        value = json.dumps({"n": n, "at": at_ms})
        self._producer.produce("numbers", value, partition=partition)

    def stop(self) -> int:
        """Write no more; return how many numbers there are."""
        self._stopped.set()
        self._thread.join(timeout=START_SECONDS)
        assert self._producer.flush(START_SECONDS) == 0
        return self.written

    def end(self) -> None:
        """Let every window close. What is not read by then would be late."""
        for partition in range(PARTITIONS):
            self._write(-1, END_MS, partition)
        assert self._producer.flush(START_SECONDS) == 0


def between_topics(folder: Path, broker: Broker) -> Stand:
    """Start a service and the job."""
    broker.create_topic("numbers", PARTITIONS)
    broker.create_topic("totals")
    broker.create_topic("hundreds", 2)
    stand = Stand(folder, SETTINGS)
    stand.start_job(SQL.format(servers=broker.servers))
    return stand


def finish(stand: Stand, broker: Broker, numbers: Numbers) -> int:
    """Let everything be published: nothing that happened may show. Returns how many numbers."""
    rows = numbers.stop()
    read = {p: len(range(p, rows, PARTITIONS)) for p in range(PARTITIONS)}
    # The offsets of the group follow the checkpoints.
    stand.wait("every number read", lambda: broker.committed("watch", "numbers") == read)
    numbers.end()
    wanted = expected(rows).total()
    stand.wait("every window published", lambda: len(broker.read_all("totals")) >= wanted)
    stand.tell("stop")
    stand.wait_for_state("stopped", "failed")
    assert stand.view()["state"] == "stopped", stand.story()
    assert_exact(broker, rows)
    stand.doctor()
    assert stand.close() == 0, stand.log()
    stand.wait_until_gone()
    return rows


def expected(rows: int) -> Counter[tuple[int, int, int, int]]:
    found: Counter[tuple[int, int, int, int]] = Counter()
    for started in range(0, rows, WINDOW_MS):
        for k in range(KEYS):
            first = started + (k - started) % KEYS
            members = range(first, min(started + WINDOW_MS, rows), KEYS)
            if members:
                found[k, START_MS + started, len(members), sum(members)] += 1
    return found


def assert_exact(broker: Broker, rows: int) -> None:
    """Compare what a reader of committed messages finds with the answer."""
    totals: Counter[tuple[int, int, int, int]] = Counter()
    for message in broker.read_all("totals"):
        row = json.loads(message.value())
        totals[row["k"], row["started"], row["n"], row["total"]] += 1
    wanted = expected(rows)
    assert (totals - wanted, wanted - totals) == (Counter(), Counter())
    hundreds = Counter(json.loads(m.value())["n"] for m in broker.read_all("hundreds"))
    every = Counter(range(0, rows, EVERY))
    assert (hundreds - every, every - hundreds) == (Counter(), Counter())
