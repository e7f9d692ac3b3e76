"""W6: from an event to its published output, at 10,000 events a second; and what idling costs.

A feeder writes a small file ten times a second; every row of it carries the moment of writing. The
pipeline copies rows, checkpoints once a second, and a row's latency ends when its output is
visible. Then the feeding ends, and the processor time of the idle pipeline is taken.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench import check, machine
from bench.child import Task, parse, report
from bench.feeding import BackgroundFeeder
from bench.pipelines import job_spec
from bench.results import RunResult
from headgate.components import embedded_controller
from headgate.controller.rules.limits import Limits

WORKLOAD = "W6 latency"
EVENTS_PER_SECOND = 10_000
FILES_PER_SECOND = 10
ROWS_PER_FILE = EVENTS_PER_SECOND // FILES_PER_SECOND
WARMING_SECONDS = 10.0
MEASURED_SECONDS = 12.0
IDLE_SECONDS = 8.0
DRAIN_SECONDS = 30.0
POLL_SECONDS = 0.01

SQL = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH (
  connector = 'filesystem', type = 'source', path = '{feed}', format = 'parquet');
CREATE TABLE copied (id BIGINT, ts TIMESTAMP) WITH (
  connector = 'filesystem', type = 'sink', path = '{output}', format = 'parquet');
INSERT INTO copied SELECT id, ts FROM events WHERE id >= 0;
"""


class LiveFeeder(BackgroundFeeder):
    """Writes files of rows that have just happened."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True)
        self.folder = folder
        self.written = 0

    def _feed(self) -> None:
        rows = ROWS_PER_FILE
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            due += 1 / FILES_PER_SECOND
            now = pa.scalar(round(time.time() * 1e6), pa.timestamp("us", tz="UTC"))
            ids = pa.array(range(self.written * rows, (self.written + 1) * rows))
            table = pa.table({"id": ids, "ts": pa.repeat(now, rows)})
            # A name with a dot in front is not seen until the file is whole.
            hidden = self.folder / f".{self.written:06}.parquet"
            pq.write_table(table, hidden)
            hidden.rename(self.folder / f"{self.written:06}.parquet")
            self.written += 1


def latencies(feeder: LiveFeeder, published: Callable[[], list[Path]]) -> tuple[list[float], str]:
    """Feed and look out for new output.

    Return the seconds from event to output, one figure per file fed, and whether every row came
    out once.
    """
    feeder.start()
    seen: set[Path] = set()
    found: dict[int, float] = {}
    ids: Counter[int] = Counter()
    begun = time.monotonic()
    feeding = WARMING_SECONDS + MEASURED_SECONDS
    while time.monotonic() - begun < feeding + DRAIN_SECONDS:
        if time.monotonic() - begun > feeding:
            feeder.stop()
            if len(found) == feeder.written:
                break
        for path in published():
            if path in seen:
                continue
            seen.add(path)
            now = time.time()
            rows = pq.read_table(path)
            ids.update(rows["id"].to_pylist())
            # Spark writes nanoseconds.
            moments = rows["ts"].cast(pa.timestamp("us"), safe=False).cast("int64")
            for moment in moments.unique().to_pylist():
                found.setdefault(moment, now - moment / 1e6)
        time.sleep(POLL_SECONDS)
    if len(found) != feeder.written:
        raise RuntimeError(f"{len(found)} of {feeder.written} files were published in time")
    warm = min(found) + WARMING_SECONDS * 1e6
    right = feeder.written * ROWS_PER_FILE
    wrong = right - sum(1 for number in range(right) if ids[number] == 1) + len(ids) - right
    answer = "exact" if not wrong else f"wrong: {wrong:,} rows missing, repeated or foreign"
    return [seconds for moment, seconds in found.items() if moment >= warm], answer


def idle_cpu() -> float:
    """Return the processor seconds per second of everything below this process."""
    before, begun = machine.tree_cpu_seconds(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (machine.tree_cpu_seconds() - before) / (time.monotonic() - begun)


def result(task: Task, system: str, measured: tuple[list[float], str], idle: float) -> RunResult:
    """Return the figures in the form of all the others."""
    ordered, answer = sorted(measured[0]), measured[1]
    facts = {
        "p50_s": statistics.median(ordered),
        "p99_s": ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))],
        "idle_cpu": idle,
    }
    return RunResult(
        system=system,
        workload=task.workload,
        variant=task.variant,
        rows=len(ordered) * ROWS_PER_FILE,
        seconds=MEASURED_SECONDS,
        checked=answer,
        facts=facts,
    )


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    feeder = LiveFeeder(task.work / "feed")
    text = SQL.format(feed=feeder.folder, output=task.output)
    spec = job_spec(task, text, Limits(checkpoint_interval_ms=1_000))
    controller = embedded_controller(spec.state_url)
    try:
        controller.start(take_up=False)
        job = controller.attach_job(spec)
        controller.wait_for(job, lambda status: status.state == "running", DRAIN_SECONDS * 10)
        measured = latencies(feeder, lambda: check.parquet_files(task.output))
        idle = idle_cpu()
    finally:
        controller.close()
    report(task, result(task, "Headgate", measured, idle), load_before)


if __name__ == "__main__":
    main()
