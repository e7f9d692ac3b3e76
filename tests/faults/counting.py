"""The pipeline of the fault tests, and its answer, which is known without running anything.

Numbers from 0, one a millisecond of event time: every hundredth is passed on (single_file), and
all are counted and summed per remainder in windows of ten seconds (filesystem, several files an
epoch). A micro-batch takes so few rows that the data outlasts the faults; at the end the job is
restarted with large ones and finishes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.support.stand import Stand

ROWS = 4_000_000
ROWS_AT_FIRST = 1_000
KEYS = 7
WINDOW = 10_000
EVERY = 100
START = datetime(2024, 3, 1, tzinfo=UTC)

SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', message_count = '{rows}',
      start_time = '2024-03-01T00:00:00Z', event_time_interval = '1ms');
CREATE TABLE hundreds (counter BIGINT)
WITH (connector = 'single_file', path = '{out}/hundreds.json', format = 'json', type = 'sink');
CREATE TABLE totals (k BIGINT, started TIMESTAMP, n BIGINT, total BIGINT)
WITH (connector = 'filesystem', path = '{out}/totals', format = 'json', type = 'sink');
INSERT INTO hundreds SELECT counter FROM numbers WHERE counter % 100 = 0;
INSERT INTO totals SELECT k, window.start, n, total FROM (
  SELECT counter % 7 AS k, tumble(interval '10 seconds') AS window, count(*) AS n,
         sum(counter) AS total
  FROM numbers GROUP BY k, window
);
"""

SETTINGS = """
[job]
parallelism = 2
checkpoint_interval = '200ms'
heartbeat_interval = '200ms'
retained_checkpoints = 2
restarts_max = -1
backoff_max = '200ms'
[job.spark]
# A JVM that lives for seconds does better without its second compiler.
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
[controller]
lease_ttl = '3s'
"""

Total = tuple[int, int, int, int]


def counting(
    folder: Path, *, rows: int = ROWS, settings: str = SETTINGS, state_url: str = "state"
) -> Stand:
    """Start a service and the job."""
    stand = Stand(folder, settings, state_url=state_url)
    stand.start_job(SQL.format(rows=rows, out=folder), max_batch_rows=ROWS_AT_FIRST)
    return stand


def finish(stand: Stand, rows: int = ROWS, **settings: int) -> None:
    """Let the job come to the end of its data, quickly: nothing that happened may show.

    Neither in the output, nor in the state, nor on the machine. `settings` are for the last run.
    """
    stand.wait_for_state("running", "finished")
    assert stand.view()["state"] == "running", "the data ended before the faults did"
    stand.tell("restart", max_batch_rows=rows, **settings)
    stand.wait_for_state("finished", "failed")
    assert stand.view()["state"] == "finished", stand.story()
    assert_exact(stand.folder, rows)
    stand.doctor()
    assert stand.close() == 0, stand.log()
    stand.wait_until_gone()
    assert stand.leftovers() == []


def assert_exact(folder: Path, rows: int = ROWS) -> None:
    """Compare what is published with the answer: nothing missing, nothing twice."""
    lines = (folder / "hundreds.json").read_text().splitlines()
    hundreds = [json.loads(line)["counter"] for line in lines]
    assert _differences(hundreds, list(range(0, rows, EVERY))) == []
    totals: list[Total] = []
    for file in (folder / "totals").rglob("*.json"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            at = datetime.fromisoformat(row["started"]).replace(tzinfo=UTC)
            started = round((at - START).total_seconds() * 1000)
            totals.append((row["k"], started, row["n"], row["total"]))
    assert _differences(totals, expected_totals(rows)) == []


def expected_totals(rows: int) -> list[Total]:
    found = []
    for started in range(0, rows, WINDOW):
        for k in range(KEYS):
            first = started + (k - started) % KEYS
            numbers = range(first, min(started + WINDOW, rows), KEYS)
            found.append((k, started, len(numbers), sum(numbers)))
    return found


def _differences(published: Sequence[object], expected: Sequence[object]) -> list[str]:
    """Return the first few rows that are missing, or there too often."""
    have, want = Counter(published), Counter(expected)
    missing = [f"missing {row}" for row in (want - have)]
    surplus = [f"surplus {row}" for row in (have - want)]
    return [*missing[:5], *surplus[:5]]
