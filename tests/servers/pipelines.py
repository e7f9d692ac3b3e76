"""Two pipelines from a topic of numbers. Their answers are known without running anything.

`Topics`: counts and sums in windows into a topic, and every hundredth number into another.
`Tables`: counts and sums by key, always up to date, into a table of Postgres, and every hundredth
number into another. A key whose sum is divisible by three is not in the table, so rows come and go.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from tests.faults.counting import SETTINGS
from tests.servers.producing import GROUP, PARTITIONS, START_MS, TABLE, TOPIC, Numbers
from tests.support.kafka import Broker
from tests.support.postgres import PostgresServer
from tests.support.stand import Stand

EVERY = 100


class Pipeline(ABC):
    """One job on a stand of its own, fed by a producer of its own."""

    sql: ClassVar[str]
    # The topics that it writes to, with their partitions. Tables are created by the job.
    topics: ClassVar[dict[str, int]] = {}

    def __init__(self, folder: Path, broker: Broker, url: str) -> None:
        self.broker = broker
        self.url = url
        broker.create_topic(TOPIC, PARTITIONS)
        for name, partitions in self.topics.items():
            broker.create_topic(name, partitions)
        self.stand = Stand(folder, SETTINGS)
        self.stand.start_job((TABLE + self.sql).format(servers=broker.servers, url=url))
        self.numbers = Numbers(broker)

    def finish(self) -> int:
        """Let everything be published: nothing that happened may show. Returns how many numbers."""
        stand, broker = self.stand, self.broker
        read = self.numbers.stop()
        rows = self.numbers.written
        # The offsets of the group follow the checkpoints.
        stand.wait("every number read", lambda: broker.committed(GROUP, TOPIC) == read)
        self.numbers.end()
        stand.wait("the last rows", lambda: self.is_complete(rows))
        stand.tell("stop")
        stand.wait_for_state("stopped", "failed")
        assert stand.view()["state"] == "stopped", stand.story()
        self.assert_exact(rows)
        stand.doctor()
        assert stand.close() == 0, stand.log()
        stand.wait_until_gone()
        return rows

    @abstractmethod
    def is_complete(self, rows: int) -> bool:
        """Whether a reader finds as many rows as there must be."""

    @abstractmethod
    def assert_exact(self, rows: int) -> None:
        """Compare what a reader finds with the answer."""


class Topics(Pipeline):
    topics: ClassVar[dict[str, int]] = {"totals": 1, "hundreds": 2}
    sql = """
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

    def is_complete(self, rows: int) -> bool:
        return len(self.broker.read_all("totals")) >= windows(rows).total()

    def assert_exact(self, rows: int) -> None:
        totals: Counter[tuple[int, int, int, int]] = Counter()
        for message in self.broker.read_all("totals"):
            row = json.loads(message.value())
            totals[row["k"], row["started"], row["n"], row["total"]] += 1
        assert_same(totals, windows(rows))
        hundreds = Counter(json.loads(m.value())["n"] for m in self.broker.read_all("hundreds"))
        assert_same(hundreds, Counter(range(0, rows, EVERY)))


class Tables(Pipeline):
    sql = """
CREATE TABLE hundreds (n BIGINT)
WITH (connector = 'postgres', type = 'sink', url = '{url}', table = 'hundreds',
      create_table = true);
CREATE TABLE sums (k BIGINT PRIMARY KEY, n BIGINT, total BIGINT)
WITH (connector = 'postgres', type = 'sink', url = '{url}', table = 'sums', create_table = true);
INSERT INTO hundreds SELECT n FROM numbers WHERE n >= 0 AND n % 100 = 0;
INSERT INTO sums SELECT n % 1000 AS k, count(*), sum(n)
FROM numbers WHERE n >= 0 GROUP BY k HAVING sum(n) % 3 <> 0;
"""

    def is_complete(self, rows: int) -> bool:
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT count(*) FROM hundreds").fetchone()
        return found is not None and found[0] >= len(range(0, rows, EVERY))

    def assert_exact(self, rows: int) -> None:
        with psycopg.connect(self.url) as connection:
            sums = Counter(connection.execute("SELECT k, n, total FROM sums").fetchall())
            hundreds = Counter(n for (n,) in connection.execute("SELECT n FROM hundreds"))
        members = {k: range(k, rows, 1000) for k in range(min(1000, rows))}
        every = ((k, len(numbers), sum(numbers)) for k, numbers in members.items())
        assert_same(sums, Counter(row for row in every if row[2] % 3))
        assert_same(hundreds, Counter(range(0, rows, EVERY)))


def windows(rows: int) -> Counter[tuple[int, int, int, int]]:
    found: Counter[tuple[int, int, int, int]] = Counter()
    for started in range(0, rows, 10_000):
        for k in range(7):
            first = started + (k - started) % 7
            members = range(first, min(started + 10_000, rows), 7)
            if members:
                found[k, START_MS + started, len(members), sum(members)] += 1
    return found


def assert_same(found: Counter[Any], wanted: Counter[Any]) -> None:
    """Say the first rows that are there too often, and the first that are missing."""
    surplus, missing = found - wanted, wanted - found
    shown = {"surplus": list(surplus)[:5], "missing": list(missing)[:5]}
    assert not surplus, shown
    assert not missing, shown


Server = Broker | PostgresServer
