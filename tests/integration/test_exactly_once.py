"""The slice, end to end, with real processes and real SIGKILLs: the output is exact every time.

100,000 orders out of order through a windowed SQL pipeline. Whatever dies, and wherever, what is
published in the end equals a plain Python computation: no row missing, none repeated.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.cli import HeadgateProcess
from tests.support.needed import in_soak

ROWS = 100_000
START = datetime(2024, 3, 1, tzinfo=UTC)
WIDTH = timedelta(seconds=10)

SQL = """
CREATE TABLE orders (
  id BIGINT, shop TEXT, amount BIGINT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = '{input}', format = 'json', type = 'source');

CREATE TABLE totals (
  shop TEXT, started TIMESTAMP, orders BIGINT, total BIGINT, smallest BIGINT, largest BIGINT,
  average DOUBLE
) WITH ({sink}, type = 'sink');

INSERT INTO totals
SELECT shop, window.start, orders, total, smallest, largest, average FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders, sum(amount) AS total,
         min(amount) AS smallest, max(amount) AS largest, avg(amount) AS average
  FROM orders WHERE amount % 10 <> 3 GROUP BY shop, window
);
"""
SINKS = {
    "single_file": "connector = 'single_file', path = '{output}/totals.json', format = 'json'",
    "filesystem": "connector = 'filesystem', path = '{output}/totals', format = 'parquet'",
}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of orders, up to 4 seconds out of order, over 1,000 seconds of event time."""
    random.seed(7)
    path = tmp_path_factory.mktemp("orders") / "orders.json"
    with path.open("w") as file:
        for i in range(ROWS):
            at = START + timedelta(milliseconds=i * 10 + random.randrange(4_000))
            row = {
                "id": i,
                "shop": None if i % 997 == 0 else f"shop-{i * 31 % 41}",
                "amount": i * 7919 % 1000,
                "at": at.isoformat().replace("+00:00", "Z"),
            }
            file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def expected(orders: Path) -> set[tuple[Any, ...]]:
    groups: dict[tuple[Any, datetime], list[int]] = defaultdict(list)
    for line in orders.read_text().splitlines():
        row = json.loads(line)
        if row["amount"] % 10 != 3:
            at = datetime.fromisoformat(row["at"])
            groups[row["shop"], START + (at - START) // WIDTH * WIDTH].append(row["amount"])
    return {
        (shop, start, len(v), sum(v), min(v), max(v), sum(v) / len(v))
        for (shop, start), v in groups.items()
    }


class Slice:
    """One job: its SQL, its state, its output."""

    def __init__(self, root: Path, orders: Path, sink: str) -> None:
        self.root = root
        self.sink = sink
        self.sql = root / "totals.sql"
        options = SINKS[sink].format(output=root)
        self.sql.write_text(SQL.format(input=orders, sink=options))

    def start(
        self, *, parallelism: int = 2, failpoints: str = "", extra: tuple[str, ...] = ()
    ) -> HeadgateProcess:
        return HeadgateProcess(
            *("run", str(self.sql), "--state-dir", str(self.root / "state")),
            *("--parallelism", str(parallelism)),
            *("--checkpoint-interval", "500ms", "--max-batch-rows", "10000"),
            *extra,
            failpoints=failpoints,
        )

    def finish(self, **options: Any) -> HeadgateProcess:
        process = self.start(**options)
        assert process.finish() == 0, process.story()
        assert process.states()[-1] == "finished"
        return process

    def published(self) -> list[tuple[Any, ...]]:
        if self.sink == "single_file":
            lines = (self.root / "totals.json").read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            for row in rows:
                row["started"] = datetime.fromisoformat(row["started"]).replace(tzinfo=UTC)
        else:
            files = sorted((self.root / "totals").rglob("*.parquet"))
            rows = [row for file in files for row in pq.read_table(file).to_pylist()]
            for row in rows:
                row["started"] = row["started"].replace(tzinfo=UTC)
        names = ("shop", "started", "orders", "total", "smallest", "largest", "average")
        return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture(params=[pytest.param("single_file", marks=in_soak), "filesystem"])
def job(request: pytest.FixtureRequest, tmp_path: Path, orders: Path) -> Slice:
    return Slice(tmp_path, orders, request.param)


@pytest.fixture
def parquet_job(tmp_path: Path, orders: Path) -> Slice:
    return Slice(tmp_path, orders, "filesystem")


def assert_exact(job: Slice, expected: set[tuple[Any, ...]]) -> None:
    published = job.published()
    assert len(published) == len(set(published)), "rows were published twice"
    assert set(published) == expected


@pytest.mark.parametrize("job", ["single_file", "filesystem"], indirect=True)
def test_straight_through(job: Slice, expected: set[tuple[Any, ...]]) -> None:
    process = job.finish()
    assert len(process.notes("CheckpointNote")) > 1
    assert_exact(job, expected)


@pytest.mark.quick
def test_worker_killed_after_a_checkpoint_is_replaced_by_the_controller(
    job: Slice, expected: set[tuple[Any, ...]]
) -> None:
    process = job.start()
    process.wait_for("CheckpointNote", 2)
    process.kill_worker()
    recovered = process.wait_for("StateChanged", after="recovering")
    assert recovered["before"] == "running"
    assert process.finish() == 0, process.story()
    phases = {note["phase"] for note in process.notes("PhaseNote")}
    assert phases == {"identify", "prepare", "restart_workers", "restore", "resume"}
    assert_exact(job, expected)


def test_everything_killed_in_the_middle_of_an_epoch(
    job: Slice, expected: set[tuple[Any, ...]]
) -> None:
    process = job.start()
    process.wait_for("CheckpointNote", 2)
    process.kill()
    job.finish()
    assert_exact(job, expected)


@pytest.mark.parametrize(
    ("job", "failpoint"),
    [
        ("filesystem", "checkpoint.after_manifest"),
        ("single_file", "checkpoint.after_record"),
        ("filesystem", "checkpoint.before_marker"),
    ],
    indirect=["job"],
)
def test_everything_killed_inside_a_checkpoint(
    job: Slice, expected: set[tuple[Any, ...]], failpoint: str
) -> None:
    process = job.start(failpoints=f"{failpoint}=kill@2")
    assert process.finish() == -9, process.story()
    job.finish()
    assert_exact(job, expected)


def test_resumed_at_another_parallelism(parquet_job: Slice, expected: set[tuple[Any, ...]]) -> None:
    # Small micro-batches, so that both runs are interrupted long before the end of the data.
    small = ("--max-batch-rows", "2000")
    first = parquet_job.start(parallelism=1, extra=small)
    first.wait_for("CheckpointNote")
    first.kill()
    second = parquet_job.start(parallelism=3, extra=small)
    second.wait_for("CheckpointNote")
    second.interrupt()
    assert second.finish() == 0, second.story()
    assert second.states()[-1] == "stopped"
    parquet_job.finish(parallelism=2)
    assert_exact(parquet_job, expected)
