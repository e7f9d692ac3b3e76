"""Where the time of a small micro-batch goes: `python -m bench.where --query keyed`.

Prints the medians by part, how often the driver talks to the JVM per micro-batch (a figure that
does not depend on the load of the machine), and the driver's profile. Not part of the suite.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import shutil
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import data, headgate_runs, lockstep, machine
from bench.child import QUERIES, Task
from bench.results import WARMING_BATCHES
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult

PROFILE = cProfile.Profile()
COMMANDS: Counter[str] = Counter()
PHASES: dict[str, list[float]] = {}
CPU: list[dict[str, float]] = []
JVM: list[dict[str, float]] = []


def cpu_by_process() -> dict[str, float]:
    """Return the processor seconds of the driver, of the JVM and of Spark's Python workers."""
    found = {"driver": 0.0, "JVM": 0.0, "Python workers": 0.0}
    for pid, seconds in machine.tree_cpu().items():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it ended while we looked
            continue
        workers = b".daemon" in command and b"java" not in command[:80]
        name = "Python workers" if workers else "JVM" if b"java" in command[:80] else "driver"
        found[name] += seconds
    return found


class ProfiledEngine(lockstep.TimedEngine):
    """Profiles the driver in every micro-batch after the warming ones."""

    def jvm_counters(self) -> dict[str, float]:
        """Return what the JVM has spent on compiling and collecting so far."""
        jvm: Any = self.spark.sparkContext._jvm
        beans = jvm.java.lang.management.ManagementFactory
        collectors = beans.getGarbageCollectorMXBeans()
        codegen = jvm.org.apache.spark.metrics.source.CodegenMetrics
        return {
            "just-in-time compiler": float(beans.getCompilationMXBean().getTotalCompilationTime()),
            "garbage collector": float(sum(c.getCollectionTime() for c in collectors)),
            "generated classes": float(codegen.METRIC_COMPILATION_TIME().getCount()),
        }

    def run(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        if len(self.timed) < WARMING_BATCHES:
            COMMANDS.clear()
            PHASES.clear()
            return super().run(request, state)
        CPU.append(cpu_by_process())
        JVM.append(self.jvm_counters())
        PROFILE.enable()
        try:
            return super().run(request, state)
        finally:
            PROFILE.disable()


def count_commands() -> None:
    """Count what py4j sends, by the kind of command and the method it calls."""
    from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]

    kinds = {"c": "call", "i": "new", "r": "look up", "m": "release", "a": "array"}
    original = GatewayClient.send_command

    def counting(self: Any, command: str, *rest: Any, **more: Any) -> Any:
        lines = command.split("\n")
        kind = kinds.get(lines[0], lines[0])
        COMMANDS[f"{kind} {lines[2] if kind == 'call' else ''}"] += 1
        return original(self, command, *rest, **more)

    GatewayClient.send_command = counting


def note_phases() -> None:
    """Keep how long Catalyst took for the last frame: analysis, optimization, planning."""
    from pyspark.sql.classic.dataframe import DataFrame

    original = DataFrame.collect

    def collect(self: Any) -> Any:
        started = time.perf_counter()
        rows = original(self)
        whole = (time.perf_counter() - started) * 1000
        phases = self._jdf.queryExecution().tracker().phases()
        names = phases.keys().iterator()
        while names.hasNext():
            name = names.next()
            taken = float(phases.apply(name).durationMs())
            PHASES.setdefault(f"collect: {name}", []).append(taken)
        PHASES.setdefault("collect, the whole of it", []).append(whole)
        return rows

    DataFrame.collect = collect  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=QUERIES, default="keyed")
    parser.add_argument("--rows", type=int, default=10_000, help="rows per micro-batch")
    parser.add_argument("--batches", type=int, default=23)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--set", nargs="*", default=[], help="Spark settings, key=value")
    parser.add_argument("--jfr", help="also record the JVM into this file (see `jfr print`)")
    parser.add_argument("--data-dir", type=Path, default=data.DEFAULT_FOLDER)
    arguments = parser.parse_args()
    bids = data.bids(
        arguments.data_dir,
        rows=arguments.rows * arguments.batches,
        keys=arguments.keys,
        file_rows=arguments.rows,
    )
    work = arguments.data_dir / "work" / "where"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    task = Task(
        workload="where",
        variant="",
        query=arguments.query,
        folder=bids.folder,
        data_format="parquet",
        files_per_batch=1,
        work=work,
        result=work / "result.json",
    )
    count_commands()
    note_phases()
    recording = f"-XX:StartFlightRecording:filename={arguments.jfr},settings=profile"
    conf = dict(pair.split("=", 1) for pair in arguments.set)
    if arguments.jfr:
        conf["spark.driver.extraJavaOptions"] = recording
    result = headgate_runs.run_in_lockstep(task, ProfiledEngine, conf)
    measured = [b for b in result.batches[WARMING_BATCHES:] if b.rows]
    print(f"{result.checked}; {len(measured)} micro-batches measured")
    print(f"p50 {statistics.median(b.milliseconds for b in measured):.0f} ms, of which")
    for name in sorted({name for b in measured for name in b.parts}):
        median = statistics.median(b.parts.get(name, 0.0) for b in measured)
        print(f"  {name:28} {median:8.1f}")
    for name, times in PHASES.items():
        print(f"  {name:28} {statistics.median(times):8.1f}")
    print("processor milliseconds per micro-batch")
    for name in CPU[0]:
        spent = (CPU[-1][name] - CPU[0][name]) / (len(CPU) - 1) * 1000
        print(f"  {name:28} {spent:8.1f}")
    for name in JVM[0]:
        spent = (JVM[-1][name] - JVM[0][name]) / (len(JVM) - 1)
        print(f"  of the JVM: {name:28} {spent:8.2f}")
    print(f"{sum(COMMANDS.values()) / len(measured):.0f} messages to the JVM per micro-batch")
    for name, count in COMMANDS.most_common(25):
        print(f"  {name:28} {count / len(measured):8.1f}")
    pstats.Stats(PROFILE).sort_stats("cumulative").print_stats(45)
    shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
