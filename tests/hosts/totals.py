"""The job of the tests on several hosts, and its answer, which is known without running anything.

Numbers from 0, at a steady rate of real time and one a millisecond of event time: counted and
summed per remainder, in windows of a second (rows that are only ever added) and without windows
(rows that change). Both ends and the state are in the store, the one thing that all hosts reach.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.storage.folder import open_folder
from tests.support.cli import HeadgateProcess
from tests.support.hosts import Host, S3Api
from tests.support.hosts.spark import SMALL

KEYS = 7
WINDOW = 1_000
START = datetime(2024, 3, 1, tzinfo=UTC)

NUMBERS = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', message_count = '{rows}', event_rate = '{rate}',
      start_time = '2024-03-01T00:00:00Z', event_time_interval = '1ms');
"""
# The same rows, from files.
FILES = """
CREATE TABLE numbers (counter BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'filesystem', type = 'source', path = '{files}', format = 'json',
      'source.read_mode' = 'bounded');
"""
QUERIES = """
CREATE TABLE windows (k BIGINT, started TIMESTAMP, n BIGINT, total BIGINT)
WITH (connector = 'filesystem', path = '{windows}', format = 'json', type = 'sink');
CREATE TABLE totals (k BIGINT PRIMARY KEY, n BIGINT, total BIGINT)
WITH (connector = 'filesystem', path = '{totals}', format = 'debezium_json', type = 'sink');
INSERT INTO windows SELECT k, window.start, n, total FROM (
  SELECT counter % 7 AS k, tumble(interval '1 second') AS window, count(*) AS n,
         sum(counter) AS total
  FROM numbers GROUP BY k, window
);
INSERT INTO totals
SELECT counter % 7 AS k, count(*) AS n, sum(counter) AS total FROM numbers GROUP BY counter % 7;
"""


@dataclass(frozen=True)
class Job:
    """The job as it runs on a driver's host, with everything in one store."""

    store: S3Api
    rows: int

    def start(self, driver: Host, *words: str, rate: int = 0, **options: Any) -> HeadgateProcess:
        """Start `headgate run` on the driver's host; without a rate the rows come from files."""
        driver.put("/home/host/totals.sql", self.sql(rate))
        return driver.headgate(
            *("run", "totals.sql", "--state-dir", self.store.url("state")),
            *("--checkpoint-interval", "2s", "--max-batch-rows", "5000", *SMALL, *words),
            **options,
        )

    def sql(self, rate: int) -> str:
        source = NUMBERS.format(rows=self.rows, rate=rate) if rate else self._files()
        folders = {name: self.store.url(f"out/{name}") for name in ("windows", "totals")}
        return source + QUERIES.format(**folders)

    def _files(self) -> str:
        folder = open_folder(self.store.url_outside("in"), {})
        for start in range(0, self.rows, 1_000):
            numbers = range(start, min(start + 1_000, self.rows))
            lines = (
                json.dumps({"counter": n, "at": _moment(n).isoformat()}) + "\n" for n in numbers
            )
            folder.write(f"{start:09}.json", "".join(lines).encode())
        return FILES.format(files=self.store.url("in"))

    def assert_exact(self) -> None:
        """Compare what is published with the answer: nothing missing, nothing twice."""
        published = Counter(
            (row["k"], _as_moment(row["started"]), row["n"], row["total"])
            for row in self._rows("windows")
        )
        assert published == Counter(self._windows())
        assert self._fold_changes() == self._totals()

    def _rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Return the published rows, in the order of their epochs."""
        folder = open_folder(self.store.url_outside(f"out/{name}"), {})
        for file in sorted(f.path for f in folder.list() if not f.path.startswith(".")):
            yield from map(json.loads, folder.read(file).decode().splitlines())

    def _fold_changes(self) -> dict[int, dict[str, int]]:
        """Return the rows that the changes lead to; each must change what is there."""
        there: dict[int, dict[str, int]] = {}
        for change in self._rows("totals"):
            before, after = change["before"], change["after"]
            key = (after or before)["k"]
            assert there.get(key) == before, f"{change} does not follow from {there.get(key)}"
            there[key] = after
        return there

    def _windows(self) -> Iterator[tuple[int, datetime, int, int]]:
        for start in range(0, self.rows, WINDOW):
            for key in range(KEYS):
                numbers = [
                    n for n in range(start, min(start + WINDOW, self.rows)) if n % KEYS == key
                ]
                yield key, _moment(start), len(numbers), sum(numbers)

    def _totals(self) -> dict[int, dict[str, int]]:
        numbers = {key: range(key, self.rows, KEYS) for key in range(KEYS)}
        return {k: {"k": k, "n": len(ns), "total": sum(ns)} for k, ns in numbers.items()}


def _moment(number: int) -> datetime:
    """Return the event time of a number."""
    return START + timedelta(milliseconds=number)


def _as_moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
