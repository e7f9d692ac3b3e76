"""Headgate over a folder of files, in its own process: SQL in, a checked answer and times out.

Fixed batches run in lockstep with their checkpoints (`lockstep.py`); with `--growing` the whole
system runs: real controller, worker process, timers, batches that grow (`whole_system.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import machine
from bench.child import CORES, DRIVER_MEMORY, Task, parse, report
from bench.lockstep import JOB, FixedCuts, Lockstep, TimedEngine, from_scratch
from bench.pipelines import sql
from bench.results import RunResult
from bench.state_rows import checked
from headgate.connectors.base import Sink, Source
from headgate.connectors.registry import connector
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.messages import RunSettings, Start
from headgate.engine.jvm.session import start_session
from headgate.engine.worker.loop import WorkerLoop
from headgate.engine.worker.scratch import open_scratch
from headgate.operators import SinkSpec, SourceSpec
from headgate.planner import plan
from headgate.state.protocol.writes import claim_generation
from headgate.storage import job_folder, open_store
from headgate.storage.counting import CountingStore


def rows_per_batch(task: Task) -> int:
    """Return how many rows the wanted number of files holds, taken from the smallest file.

    The source takes whole files, at least one: so of files of different sizes it takes one each.
    """
    import pyarrow.parquet as pq

    files = task.files()
    if task.data_format == "parquet":
        return task.files_per_batch * min(int(pq.read_metadata(p).num_rows) for p in files)
    with open(files[0], "rb") as lines:
        return task.files_per_batch * sum(1 for _ in lines)


def run_in_lockstep(
    task: Task,
    engine_type: type[TimedEngine] = TimedEngine,
    spark_conf: Mapping[str, str] | None = None,
) -> RunResult:
    graph = plan(sql(task))
    state = task.work / "state"
    settings = RunSettings(
        state_url=str(state),
        scratch_dir=str(task.work / "scratch"),
        master=f"local[{CORES}]",
        spark_conf={
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.warehouse.dir": str(task.work / "warehouse"),
            **(spark_conf or {}),
        },
    )
    (task.work / "scratch").mkdir()
    spark = start_session(settings, parallelism=CORES, app_name="headgate bench")
    try:
        engine = _engine(task, engine_type, spark, graph)
        return _measure(task, engine, graph, settings)
    finally:
        spark.stop()


def _measure(
    task: Task, engine: TimedEngine, graph: PipelineGraph, settings: RunSettings
) -> RunResult:
    store = CountingStore(job_folder(open_store(settings.state_url), JOB))
    generation = claim_generation(
        store, JOB, claimant="bench", base=None, parallelism=CORES, now_ms=0
    )
    start = Start(
        job=JOB,
        generation=generation,
        parallelism=CORES,
        graph=graph,
        plan=from_scratch(CORES),
        settings=settings,
    )
    link = Lockstep(start, store, task.checkpoint_seconds)
    loop = WorkerLoop(
        start,
        engine,
        link,
        lambda: time.time_ns() // 1_000_000,
        open_scratch(start),
        str(task.work / "cache"),
    )
    engine.after_batch = link.batch_done
    for source in engine.sources.values():
        if isinstance(source, FixedCuts):
            source.before_cut = link.wait_for_commit
    sampler = machine.CpuSampler()
    sampler.start()
    engine.begun = time.perf_counter()
    loop.run()
    seconds = time.perf_counter() - engine.begun
    cpu = sampler.stop()
    if link.failures:
        raise RuntimeError(f"a micro-batch failed: {link.failures[0].error}")
    total, objects = machine.folder_size(Path(settings.state_url))
    answer = RunResult(
        system="Headgate",
        workload=task.workload,
        variant=task.variant,
        rows=loop.progress.rows_in,
        seconds=seconds,
        batches=engine.batches(),
        checkpoints=tuple(link.checkpoints),
        cpu=tuple(cpu),
        facts={
            "checkpoint_bytes": total,
            "checkpoint_objects": objects,
            "checkpoints": len(link.checkpoints),
            "rows_late": loop.progress.rows_late,
            "rows_out": loop.progress.rows_out,
        },
    )
    return replace(answer, checked=checked(task, graph, settings.state_url, JOB))


def _engine(
    task: Task, engine_type: type[TimedEngine], spark: Any, graph: PipelineGraph
) -> TimedEngine:
    rows = rows_per_batch(task)
    sources: dict[OperatorId, Source] = {}
    sinks: dict[OperatorId, Sink] = {}
    for operator in graph.operators:
        if isinstance(operator.spec, SourceSpec):
            source = connector(operator.spec.connector).open_source(operator.spec)
            sources[operator.id] = FixedCuts(source, rows)
        elif isinstance(operator.spec, SinkSpec):
            sinks[operator.id] = connector(operator.spec.connector).open_sink(operator.spec)
    return engine_type(spark=spark, graph=graph, sources=sources, sinks=sinks)


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    if task.growing:
        from bench.whole_system import run_whole_system

        result = run_whole_system(task)
    else:
        result = run_in_lockstep(task)
    report(task, result, load_before)


if __name__ == "__main__":
    main()
