"""Months in an afternoon: one small job through many micro-batches, and what of it grows.

    python -m tests.endurance --batches 20000 --out endurance [--page docs/endurance.md]

A job with a window, an updating aggregate and two sinks takes a checkpoint a second in its real
processes. At intervals everything that could grow is measured: the heap of the JVM after a forced
collection, memory, open files and threads of every process, Spark's and Headgate's files, the
database and the state store. After warming up each must be flat: the median of the last quarter of
the samples is compared with that of the second. Needs `jcmd` and `jstat` of a JDK.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.cli import HeadgateProcess
from tests.support.plot import lines_svg

SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', start_time = '2024-03-01T00:00:00Z',
      event_time_interval = '1ms');
CREATE TABLE totals (k BIGINT, started TIMESTAMP, n BIGINT)
WITH (connector = 'blackhole', type = 'sink');
CREATE TABLE counts (k BIGINT, n BIGINT) WITH (connector = 'blackhole', type = 'sink');
INSERT INTO totals SELECT k, window.start, n FROM (
  SELECT counter % 7 AS k, tumble(interval '1 second') AS window, count(*) AS n
  FROM numbers GROUP BY k, window
);
INSERT INTO counts SELECT counter % 100 AS k, count(*) AS n FROM numbers GROUP BY counter % 100;
"""
ROWS_PER_BATCH = 200
SAMPLES = 40
COLLECTIONS = 7
MIB = 1 << 20
FLAT, GROWS = "flat", "GROWS"
JAVA, PYTHON_PARENT = "java", "headgate-python"


@dataclass(frozen=True)
class Limit:
    """How much the last quarter may lie above the second: a part of it, and a fixed amount."""

    part: float
    amount: float

    def most(self, before: float) -> float:
        return before * (1 + self.part) + self.amount

    def allows(self, before: float, after: float) -> bool:
        return after <= self.most(before)


# What is measured, and what still counts as flat.
LIMITS = {
    "heap_mib": Limit(0.02, 2),
    "java_outside_heap_mib": Limit(0.10, 30),
    "java_classes_mib": Limit(0.05, 3),
    "java_compiled_mib": Limit(0.15, 10),
    "driver_rss_mib": Limit(0.05, 10),
    "controller_rss_mib": Limit(0.05, 10),
    "python_workers_rss_mib": Limit(0.15, 40),
    "open_files": Limit(0.10, 10),
    "threads": Limit(0.10, 10),
    "scratch_files": Limit(0.25, 30),
    "scratch_mib": Limit(0.25, 5),
    "cache_mib": Limit(0.25, 0.1),
    # SQLite's log of changes grows to 4 MiB before it is used again.
    "database_mib": Limit(0.10, 4.2),
    "state_objects": Limit(0.25, 60),
    "state_mib": Limit(0.25, 1),
}
PAGE = """# Endurance

Written by `make endurance`: one small job (a tumbling window, an updating aggregate, two sinks,
parallelism 2) with a checkpoint a second, in its real processes, through {batches:,.0f}
micro-batches in {minutes:.0f} minutes. At {samples} moments whatever could grow was measured,
the heap of the JVM after forced full collections, the least of {collections}. Flat means: the
median of the last quarter of the samples is above that of the second by no more than the part and
the amount allowed.

| value | first | second quarter | last quarter | allowed | |
| --- | --- | --- | --- | --- | --- |
{rows}

![Every value relative to the most that counts as flat]({plot})
"""
Sample = dict[str, float]


class Grown(AssertionError):
    """Something is not flat."""


def run(
    batches: int,
    folder: Path,
    note: Callable[[Sequence[Sample]], None],
    collections: int = COLLECTIONS,
) -> list[Sample]:
    """Run the job through so many micro-batches; return the samples. Each is noted as it comes."""
    sql, state = folder / "endurance.sql", folder / "state"
    sql.write_text(SQL)
    # The history may grow to what it keeps: a short run keeps little, so that it gets there.
    kept = str(max(20, min(1_000, batches // 15)))
    job = HeadgateProcess(
        *("run", str(sql), "--state-dir", str(state), "--checkpoint-interval", "1s"),
        *("--parallelism", "2", "--max-batch-rows", str(ROWS_PER_BATCH)),
        environment={
            "HEADGATE_RETENTION_CHECKPOINT_NOTES": kept,
            "HEADGATE_RETENTION_NOTES": kept,
        },
    )
    samples: list[Sample] = []
    began = time.monotonic()
    try:
        while not samples or samples[-1]["batches"] < batches:
            wanted = batches * (len(samples) + 1) / SAMPLES
            done = 0
            while done < wanted:
                done = job.wait_for("ProgressMade")["progress"]["batches"]
            found = {"batches": float(done), "seconds": time.monotonic() - began}
            samples.append(found | measured(job.process.pid, state, collections))
            note(samples)
        job.interrupt()
        assert job.finish() == 0, job.story()
    finally:
        if job.process.poll() is None:
            job.kill()
    return samples


def measured(controller: int, state: Path, collections: int) -> Sample:
    """Return every value of this moment."""
    root = psutil.Process(controller)
    processes = {"controller": [root], "java": [], "driver": [], "python_workers": []}
    for process in root.children(recursive=True):
        name = process.name()
        role = "java" if name == JAVA else "driver"
        processes["python_workers" if name == PYTHON_PARENT else role].append(process)
    sample = {
        f"{role}_rss_mib": sum(_of(p, lambda p: p.memory_info().rss) for p in found) / MIB
        for role, found in processes.items()
    }
    everybody = [p for found in processes.values() for p in found]
    sample["open_files"] = sum(_of(p, lambda p: p.num_fds()) for p in everybody)
    sample["threads"] = sum(_of(p, lambda p: p.num_threads()) for p in everybody)
    (java,) = processes["java"]
    # The JVM touches its heap up to -Xmx as it sees fit, whatever lives there: what lives in it is
    # looked at by itself, and so is everything else that the process has.
    outside = sample.pop("java_rss_mib") - heap_pages(java.pid) / MIB
    sample["java_outside_heap_mib"] = outside
    # The two parts of it that grow with code: classes, and what is compiled of them.
    sample["java_classes_mib"] = _sum_kib(
        r"Metaspace +used (\d+)K", _jcmd(java.pid, "GC.heap_info")
    )
    sample["java_compiled_mib"] = _sum_kib(r" used=(\d+)Kb", _jcmd(java.pid, "Compiler.codecache"))
    sample["heap_mib"] = heap_bytes(java.pid, collections) / MIB
    local = state / ".local"
    scratch = _files(local, lambda path: "scratch" in path.parts and "cache" not in path.parts)
    cache = _files(local, lambda path: "cache" in path.parts)
    database = _files(local, lambda path: path.name.startswith("jobs.db"))
    objects = _files(state, lambda path: local not in path.parents)
    sample |= {"scratch_files": len(scratch), "scratch_mib": sum(scratch) / MIB}
    sample |= {"cache_mib": sum(cache) / MIB, "database_mib": sum(database) / MIB}
    return sample | {"state_objects": len(objects), "state_mib": sum(objects) / MIB}


def heap_pages(pid: int) -> int:
    """Return how much of the range of the JVM's heap is in memory."""
    info = _jcmd(pid, "GC.heap_info")
    addresses = [int(address, 16) for address in re.findall(r"0x[0-9a-f]+", info)]
    low, high = min(addresses), max(addresses)
    total, inside = 0, False
    for line in (Path("/proc") / str(pid) / "smaps").read_text().splitlines():
        mapping = re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line)
        if mapping is not None:
            inside = low <= int(mapping[1], 16) < high
        elif inside and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


def _sum_kib(pattern: str, text: str) -> float:
    """Return the sum of what a pattern finds, in MiB."""
    found = [int(kib) for kib in re.findall(pattern, text)]
    assert found, text
    return sum(found) / 1024


def _jcmd(pid: int, *words: str) -> str:
    command = ["jcmd", str(pid), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def heap_bytes(pid: int, collections: int) -> float:
    """Return what of the JVM's heap lives, after a full collection.

    The least of several, because each also counts what the micro-batch that just runs has made.
    """
    return min(_heap_bytes(pid) for _ in range(collections))


def _heap_bytes(pid: int) -> float:
    _jcmd(pid, "GC.run")
    answer = subprocess.run(
        ["jstat", "-gc", str(pid)], check=True, capture_output=True, text=True
    ).stdout
    names, values = (line.split() for line in answer.splitlines())
    table = dict(zip(names, values, strict=True))
    # A full collection moves all that lives to the old generation; the young one is what the
    # running micro-batch has made since.
    return 1024 * float(table["OU"])


def _of(process: psutil.Process, value: Callable[[psutil.Process], float]) -> float:
    try:
        return value(process)
    except psutil.NoSuchProcess:
        return 0.0


def _files(folder: Path, wanted: Callable[[Path], bool]) -> list[int]:
    """Return the sizes of the files below a folder. Files and folders may go while it looks."""
    sizes = []
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            if wanted(path):
                with contextlib.suppress(FileNotFoundError):
                    sizes.append(path.stat().st_size)
    return sizes


def quarters(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Return the medians of the second and of the last quarter; one sample is both."""
    size = max(1, len(samples) // 4)
    values = [sample[name] for sample in samples]
    return statistics.median(values[size : 2 * size] or values), statistics.median(values[-size:])


def judge(samples: Sequence[Sample], limits: Mapping[str, Limit]) -> list[str]:
    """Return a line for each value: what it was, what it is, and whether that is flat."""
    lines, grown = [], []
    for name, limit in limits.items():
        before, after = quarters(samples, name)
        verdict = _verdict(samples, name, limit)
        lines.append(f"{name:24} {before:10.1f} {after:10.1f}  {verdict}")
        grown += [] if verdict == FLAT else [name]
    if grown:
        raise Grown("\n".join([f"not flat: {', '.join(grown)}", *lines]))
    return lines


def _verdict(samples: Sequence[Sample], name: str, limit: Limit) -> str:
    return FLAT if limit.allows(*quarters(samples, name)) else GROWS


def page(samples: Sequence[Sample], plot: str) -> str:
    """Return what was measured, as a page of the docs."""
    last = samples[-1]
    rows = []
    for name, limit in LIMITS.items():
        before, after = quarters(samples, name)
        allowed = f"{limit.part:.0%} + {limit.amount:g}"
        words = name.removesuffix("_mib").replace("_", " ")
        unit = ", MiB" if name.endswith("_mib") else ""
        first = samples[0][name]
        verdict = _verdict(samples, name, limit)
        rows.append(
            f"| {words}{unit} | {first:.1f} | {before:.1f} | {after:.1f} | {allowed} | {verdict} |"
        )
    return PAGE.format(
        batches=last["batches"],
        minutes=last["seconds"] / 60,
        samples=len(samples),
        collections=COLLECTIONS,
        rows="\n".join(rows),
        plot=plot,
    )


def write(samples: Sequence[Sample], out: Path) -> None:
    """Write the samples as a table and as a plot, every value relative to the most allowed."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "endurance.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(samples[0]))
        table.writeheader()
        table.writerows({k: round(v, 3) for k, v in sample.items()} for sample in samples)
    series = {
        name: [
            (sample["batches"], sample[name] / limit.most(quarters(samples, name)[0]))
            for sample in samples
        ]
        for name, limit in LIMITS.items()
    }
    title = "Relative to the most that counts as flat, by micro-batches"
    (out / "endurance.svg").write_text(lines_svg(title, series))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("endurance"))
    parser.add_argument("--page", type=Path, help="write a page for the docs, and its plot beside")
    arguments = parser.parse_args()

    def note(samples: Sequence[Sample]) -> None:
        last = samples[-1]
        print(f"{last['batches']:.0f} micro-batches, {last['seconds']:.0f} s", flush=True)
        # As far as it has come: hours must not be lost with a process.
        write(samples, arguments.out)

    folder = Path(tempfile.mkdtemp(prefix="headgate-endurance-"))
    try:
        samples = run(arguments.batches, folder, note)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.page is not None:
        plot = arguments.page.with_suffix(".svg")
        shutil.copyfile(arguments.out / "endurance.svg", plot)
        arguments.page.write_text(page(samples, plot.name))
    try:
        print("\n".join(judge(samples, LIMITS)))
    except Grown as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
