"""Runs a graph in this process, in a Spark session that is up.

The link's other end (`Checkpoints`) answers the worker loop: it records every acknowledged
checkpoint with `state.protocol` and tells the loop to publish. A kill drops everything that is not
in a recorded checkpoint, as SIGKILL would; the next `run` resumes with `prepare_checkpoint_load`,
at whatever parallelism it is given.

    rehearsal = Rehearsal(spark, graph, folder)
    rehearsal.run(parallelism=2, rows_per_batch=100, barrier_every=2, kill_at_batch=5)
    rehearsal.run(parallelism=3)          # resumes, runs to the end of the data
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.connectors.base import Lookup, NamedSink, Sink, Source, SpreadSink
from headgate.connectors.registry import connector
from headgate.core.checkpoint import CheckpointRef, LoadingPlan
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.messages import Progress, RunSettings, Start, TaskFailed
from headgate.engine.worker.loop import WorkerLoop
from headgate.engine.worker.scratch import StoreSpace, open_scratch
from headgate.rehearsal.checkpoints import Checkpoints
from headgate.rehearsal.conduct import Conduct, EveryBatches, Killed
from headgate.rehearsal.engine import RehearsedEngine
from headgate.state.protocol.graphs import write_graph
from headgate.state.protocol.writes import claim_generation
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.storage import job_folder, open_store

JOB = JobId("job_rehearsal")


@dataclass
class Outcome:
    """How a run ended, and what it did."""

    # All rows were read, and everything open was emitted and published.
    finished: bool = False
    killed: bool = False
    # `cancel` was called.
    cancelled: bool = False
    batches: int = 0
    # The newest epoch that is published.
    recorded: Epoch = Epoch(0)  # noqa: RUF009  a number
    progress: Progress = field(default_factory=Progress)
    # Why it failed, in the words of the worker; empty if it did not.
    failures: list[TaskFailed] = field(default_factory=list)
    # What a micro-batch raised, if one failed.
    error: Exception | None = None


class Rehearsal:
    """One job, over any number of runs (generations)."""

    def __init__(
        self,
        spark: SparkSession,
        graph: PipelineGraph,
        root: Path,
        *,
        sources: dict[OperatorId, Source] | None = None,
        sinks: dict[OperatorId, Sink] | None = None,
        lookups: dict[OperatorId, Lookup] | None = None,
        job: JobId = JOB,
        shared_nothing: bool = False,
    ) -> None:
        """Keep state and scratch below `root`, a folder (tasks are other processes).

        What is not given as `sources`, `sinks` or `lookups` is opened by its connector. With
        `shared_nothing`, tasks have what waits for its barrier in the state store only.
        """
        self.spark = spark
        self.graph = graph
        self.root = root
        self.job = job
        self.use_store(str(root / "state"))
        self._sources = sources
        self._sinks = sinks
        self._lookups = lookups or {}
        self._shared_nothing = shared_nothing
        self._tag = f"headgate-rehearsal-{id(self)}"
        self._running: Checkpoints | None = None
        self._cancelled = False
        self.generation: Generation | None = None

    def use_store(self, url: str) -> None:
        """Keep the state there; to be said before the first run."""
        self.state_url = url
        self.store = job_folder(open_store(url), self.job)

    def cancel(self) -> None:
        """End the run: its micro-batch is abandoned, nothing more is published.

        Any thread may call it, and again: a Spark job that began just then would run to its end.
        What was not in a checkpoint is not lost, the next `run` computes it again.
        """
        self._cancelled = True
        running = self._running
        if running is not None:
            running.stop()
            self.spark.sparkContext.cancelJobsWithTag(self._tag)

    def run(
        self,
        *,
        parallelism: int = 2,
        rows_per_batch: int = 1_000_000,
        barrier_every: int | None = None,
        barrier_first: bool = False,
        barrier_always: bool = False,
        kill_at_batch: int | None = None,
        stop_at_batch: int | None = None,
        conduct: Conduct | None = None,
        allow_drop_state: frozenset[str] = frozenset(),
        now_ms: int | Callable[[], int] | None = None,
    ) -> Outcome:
        """Run one generation, to the end of the data or as `EveryBatches` says.

        `conduct` takes the place of the arguments from `barrier_every` to `stop_at_batch`. `now_ms`
        is the time, fixed or asked for; None = the clock's.
        """
        if conduct is None:
            conduct = EveryBatches(
                barrier_every=barrier_every,
                barrier_first=barrier_first,
                barrier_always=barrier_always,
                kill_at_batch=kill_at_batch,
                stop_at_batch=stop_at_batch,
            )
        self._cancelled = False
        context = self.spark.sparkContext
        context.addJobTag(self._tag)
        try:
            return self._run(parallelism, rows_per_batch, conduct, allow_drop_state, clock(now_ms))
        finally:
            self._running = None
            context.removeJobTag(self._tag)

    def _run(
        self,
        parallelism: int,
        rows_per_batch: int,
        conduct: Conduct,
        allow_drop_state: frozenset[str],
        now_ms: Callable[[], int],
    ) -> Outcome:
        try:
            start, newest = self._prepared(parallelism, rows_per_batch, allow_drop_state, now_ms())
        except Killed:
            return Outcome(killed=True)
        checkpoints = Checkpoints(self.store, start, newest, conduct)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(parallelism))
        engine = self.make_engine(self._open_sources(), self._open_sinks())
        engine.rehearse(conduct, self._lookups)
        space = StoreSpace(self.store) if self._shared_nothing else open_scratch(start)
        cache = None if self._shared_nothing else str(Path(start.settings.scratch_dir) / "cache")
        self._running = checkpoints
        if self._cancelled:
            # Asked for before there was anybody to ask.
            checkpoints.stop()
        conduct.begins(checkpoints)
        loop = WorkerLoop(start, engine, checkpoints, now_ms, space, cache)
        killed = False
        try:
            loop.run()
        except Killed:
            killed = True
        finally:
            space.close()
            shutil.rmtree(start.settings.scratch_dir, ignore_errors=True)
        cancelled = self._cancelled
        return Outcome(
            finished=checkpoints.finished,
            killed=killed,
            cancelled=cancelled,
            batches=engine.batches,
            recorded=checkpoints.recorded,
            progress=loop.progress,
            # A micro-batch whose Spark job was cancelled has failed, and nobody minds.
            failures=[] if cancelled else checkpoints.failures,
            error=None if cancelled else engine.error,
        )

    def make_engine(
        self, sources: dict[OperatorId, Source], sinks: dict[OperatorId, Sink]
    ) -> RehearsedEngine:
        return RehearsedEngine(self.spark, self.graph, sources, sinks)

    def _prepared(
        self, parallelism: int, rows_per_batch: int, allow_drop_state: frozenset[str], now_ms: int
    ) -> tuple[Start, CheckpointRef | None]:
        """Identify the checkpoint to go on from, plan what to load, fence what came before."""
        prepared = StateBackend(self.store, self.job).prepare_checkpoint_load(
            parallelism=parallelism,
            graph=self.graph,
            allow_drop_state=allow_drop_state,
            verify_checksums=True,
        )
        plan = (
            prepared.plan
            if isinstance(prepared, LoadPrepared)
            else LoadingPlan(job=self.job, parallelism=parallelism)
        )
        generation = claim_generation(
            self.store,
            self.job,
            claimant=f"rehearsal-{id(plan)}",
            base=plan.checkpoint,
            parallelism=parallelism,
            now_ms=now_ms,
        )
        write_graph(self.store, generation, self.graph)
        self.generation = generation
        scratch = self.root / f"scratch-{generation}"
        scratch.mkdir(parents=True)
        settings = RunSettings(
            state_url=self.state_url, scratch_dir=str(scratch), max_batch_rows=rows_per_batch
        )
        start = Start(
            job=self.job,
            generation=generation,
            parallelism=parallelism,
            graph=self.graph,
            plan=plan,
            settings=settings,
        )
        return start, prepared.newest

    def _open_sources(self) -> dict[OperatorId, Source]:
        if self._sources is not None:
            return self._sources
        specs: list[tuple[OperatorId, Any]] = [(o.id, o.spec) for o in self.graph.sources()]
        return {i: connector(s.connector).open_source(s) for i, s in specs}

    def _open_sinks(self) -> dict[OperatorId, Sink]:
        if self._sinks is not None:
            return self._sinks
        specs: list[tuple[OperatorId, Any]] = [(o.id, o.spec) for o in self.graph.sinks()]
        return {i: self._ready(i, connector(s.connector).open_sink(s)) for i, s in specs}

    def _ready(self, operator: OperatorId, sink: Sink) -> Sink:
        if isinstance(sink, NamedSink):
            sink.set_operator(operator)
        if isinstance(sink, SpreadSink):
            sink.set_session(self.spark)
        return sink


def clock(now_ms: int | Callable[[], int] | None) -> Callable[[], int]:
    """Return the time as a function."""
    if now_ms is None:
        return lambda: time.time_ns() // 1_000_000
    if isinstance(now_ms, int):
        fixed = now_ms
        return lambda: fixed
    return now_ms
