"""A producer that writes numbers as fast as it can to a topic of three partitions."""

from __future__ import annotations

import json
import threading

from confluent_kafka import Producer

from tests.support.kafka import START_SECONDS, Broker

TOPIC = "numbers"
GROUP = "watch"
PARTITIONS = 3
START_MS = 1_700_000_000_000
# A time that no number reaches: it closes every window.
END_MS = START_MS + 10**10

# One number a millisecond of event time.
TABLE = """
CREATE TABLE numbers (
  n BIGINT NOT NULL, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL '60 seconds'
) WITH (connector = 'kafka', type = 'source', bootstrap_servers = '{servers}', topic = 'numbers',
        'source.offset' = 'earliest', 'source.group_id' = 'watch');
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
        self._producer.produce(TOPIC, value, partition=partition)

    def stop(self) -> dict[int, int]:
        """Write no more; return how many numbers each partition has."""
        self._stopped.set()
        self._thread.join(timeout=START_SECONDS)
        assert self._producer.flush(START_SECONDS) == 0
        return {p: len(range(p, self.written, PARTITIONS)) for p in range(PARTITIONS)}

    def end(self) -> None:
        """Let every window close. What is not read by then would be late."""
        for partition in range(PARTITIONS):
            self._write(-1, END_MS, partition)
        assert self._producer.flush(START_SECONDS) == 0
