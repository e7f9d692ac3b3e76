"""What every measured process is told, and how it reports."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from bench import machine
from bench.results import RunResult

# The same for every system that runs on Spark.
CORES = 2
DRIVER_MEMORY = "4g"
QUERIES = ("window", "keyed")


@dataclass(frozen=True)
class Task:
    """One run: a query over a folder of files."""

    workload: str
    variant: str
    query: str
    folder: Path
    data_format: str
    files_per_batch: int
    # Scratch of this run alone: state, checkpoints, output.
    work: Path
    result: Path
    # Headgate: seconds between checkpoints (0 = as often as possible), and batches that grow.
    checkpoint_seconds: float = 0.0
    growing: bool = False
    # Structured Streaming: rocksdb or hdfs.
    store: str = "rocksdb"
    # How often a batch computation is repeated.
    repeats: int = 3

    def arguments(self) -> list[str]:
        """Return the command line that `parse` reads back."""
        words = []
        for name, value in vars(self).items():
            if value is True:
                words.append(f"--{name.replace('_', '-')}")
            elif value is not False:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return words

    @property
    def output(self) -> Path:
        return self.work / "output"

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.is_file())


def parse(description: str | None, *, fresh: bool = True) -> Task:
    """Read the command line, and make the scratch folder anew."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--query", choices=QUERIES, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--data-format", choices=("parquet", "json"), default="parquet")
    parser.add_argument("--files-per-batch", type=int, default=5)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--checkpoint-seconds", type=float, default=0.0)
    parser.add_argument("--growing", action="store_true")
    parser.add_argument("--store", choices=("rocksdb", "hdfs"), default="rocksdb")
    parser.add_argument("--repeats", type=int, default=3)
    task = Task(**vars(parser.parse_args()))
    if fresh:
        shutil.rmtree(task.work, ignore_errors=True)
        task.work.mkdir(parents=True)
    # Spark would otherwise pick any `python3` for its workers, and look up the host's name.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return task


def report(task: Task, result: RunResult, load_before: float) -> None:
    """Write the result, and one line for whoever watches."""
    loaded = replace(
        result,
        facts={**result.facts, "query": task.query},
        load_before=load_before,
        load_after=machine.load_average(),
    )
    loaded.save(task.result)
    steady = result.steady
    rates = f"{result.overall:,.0f} rows/s" + (f", steady {steady:,.0f}" if steady else "")
    if "recovery_s" in result.facts:
        rates = f"{result.seconds:.1f} s from the kill to the first new output"
    if "p50_s" in result.facts:
        rates = "p50 {p50_s:.2f} s, p99 {p99_s:.2f} s, idle {idle_cpu:.3f} cores".format(
            **result.facts
        )
    print(f"  {result.system}: {rates}; {result.checked}", flush=True)
