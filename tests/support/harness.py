"""Runs a pipeline through the real worker loop and the real checkpoint protocol, in this process.

A controller in miniature answers the loop's messages: it records every acknowledged checkpoint
with `state.protocol` and tells the loop to publish. No processes and no timers, so a test says in
micro-batches what happens when: `run(barrier_every=3, kill_at_batch=7)`. A kill drops everything
that is not in a recorded checkpoint, as SIGKILL would; the next `run` resumes with
`prepare_checkpoint_load`, at whatever parallelism it is given.

    harness = PipelineHarness(spark, graph, tmp_path)
    harness.run(parallelism=2, rows_per_batch=100, barrier_every=2, kill_at_batch=5)
    harness.run(parallelism=3)          # resumes, runs to the end of the data
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.connectors.base import Sink, Source
from headgate.core.checkpoint import CheckpointRef, LoadingPlan, SinkCommit
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch, JobId, OperatorId
from headgate.core.messages import (
    Barrier,
    Commit,
    EpochCutDone,
    Progress,
    RunSettings,
    SinkPublished,
    SourcesFinished,
    Start,
    Stop,
    SubtaskAcked,
    TaskFailed,
    WorkerMessage,
)
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult, Engine
from headgate.engine.worker.link import Inbox
from headgate.engine.worker.loop import WorkerLoop
from headgate.engine.worker.scratch import StoreSpace, open_scratch
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.protocol.graphs import write_graph
from headgate.state.protocol.writes import (
    AlreadyRecorded,
    Recorded,
    claim_generation,
    write_checkpoint,
    write_committed,
)
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.storage import job_folder, open_store

JOB = JobId("job_test")


class Killed(BaseException):
    """Not an Exception, so nothing on the way can swallow it: the process is gone."""


@dataclass
class Outcome:
    """How a run ended, and what it did."""

    finished: bool
    killed: bool
    batches: int
    recorded: Epoch
    progress: Progress
    failures: list[TaskFailed] = field(default_factory=list)


class PipelineHarness:
    """One job, over any number of runs (generations)."""

    def __init__(
        self,
        spark: SparkSession,
        graph: PipelineGraph,
        root: Path,
        *,
        sources: dict[OperatorId, Source] | None = None,
        sinks: dict[OperatorId, Sink] | None = None,
        shared_nothing: bool = False,
    ) -> None:
        """With `shared_nothing`, tasks have what waits for its barrier in the state store only."""
        self.spark = spark
        self.graph = graph
        self.root = root
        self.use_store(str(root / "state"))
        self._sources = sources
        self._sinks = sinks
        self._shared_nothing = shared_nothing

    def use_store(self, url: str) -> None:
        """Keep the state there; to be said before the first run."""
        self.state_url = url
        self.store = job_folder(open_store(url), JOB)

    def run(
        self,
        *,
        parallelism: int = 2,
        rows_per_batch: int = 1_000_000,
        barrier_every: int | None = None,
        barrier_first: bool = False,
        kill_at_batch: int | None = None,
        stop_at_batch: int | None = None,
        allow_drop_state: frozenset[str] = frozenset(),
        now_ms: int = 1_700_000_000_000,
    ) -> Outcome:
        """Run one generation.

        `barrier_every=k`: a checkpoint every k micro-batches; `barrier_first`: the first one ends
        with one. `kill_at_batch=n`: dies when the n-th micro-batch has run, before its result is
        taken over. `stop_at_batch=n`: a final checkpoint with the micro-batch after the n-th, and a
        clean stop. Without either it runs to the end of the data.
        """
        prepared = StateBackend(self.store, JOB).prepare_checkpoint_load(
            parallelism=parallelism,
            graph=self.graph,
            allow_drop_state=allow_drop_state,
            verify_checksums=True,
        )
        plan = (
            prepared.plan
            if isinstance(prepared, LoadPrepared)
            else LoadingPlan(job=JOB, parallelism=parallelism)
        )
        newest = prepared.newest
        generation = claim_generation(
            self.store,
            JOB,
            claimant=f"harness-{id(plan)}",
            base=plan.checkpoint,
            parallelism=parallelism,
            now_ms=now_ms,
        )
        write_graph(self.store, generation, self.graph)
        self.generation = generation
        scratch = self.root / f"scratch-{generation}"
        scratch.mkdir(parents=True)
        start = Start(
            job=JOB,
            generation=generation,
            parallelism=parallelism,
            graph=self.graph,
            plan=plan,
            settings=RunSettings(
                state_url=self.state_url, scratch_dir=str(scratch), max_batch_rows=rows_per_batch
            ),
        )
        link = _MiniController(self, start, newest)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(parallelism))
        engine = _Engine(self.spark, self.graph, self._open_sources(), self._open_sinks())
        engine.shared_nothing = self._shared_nothing
        engine.plan_faults(link, barrier_every, kill_at_batch, stop_at_batch)
        if barrier_first or stop_at_batch == 0:
            link.trigger(then_stop=stop_at_batch == 0)
        space = StoreSpace(self.store) if self._shared_nothing else open_scratch(start)
        cache = None if self._shared_nothing else str(scratch / "cache")
        loop = WorkerLoop(start, engine, link, lambda: now_ms, space, cache)
        killed = False
        try:
            loop.run()
        except Killed:
            killed = True
        space.close()
        shutil.rmtree(scratch, ignore_errors=True)
        if engine.error is not None:
            raise engine.error
        return Outcome(
            finished=link.finished,
            killed=killed,
            batches=engine.batches,
            recorded=link.recorded,
            progress=loop.progress,
            failures=link.failures,
        )

    def _open_sources(self) -> dict[OperatorId, Source]:
        if self._sources is not None:
            return self._sources
        from headgate.connectors.registry import connector

        specs: list[tuple[OperatorId, Any]] = [(o.id, o.spec) for o in self.graph.sources()]
        return {i: connector(s.connector).open_source(s) for i, s in specs}

    def _open_sinks(self) -> dict[OperatorId, Sink]:
        if self._sinks is not None:
            return self._sinks
        from headgate.connectors.registry import connector

        specs: list[tuple[OperatorId, Any]] = [(o.id, o.spec) for o in self.graph.sinks()]
        return {i: connector(s.connector).open_sink(s) for i, s in specs}


class _Engine(Engine):
    """Counts micro-batches and lets barriers and faults happen between them."""

    shared_nothing = False

    def plan_faults(
        self,
        link: _MiniController,
        barrier_every: int | None,
        kill_at: int | None,
        stop_at: int | None,
    ) -> None:
        self.batches = 0
        # Why a micro-batch failed: the loop tells its controller, a test wants to see it.
        self.error: Exception | None = None
        self._link = link
        self._barrier_every = barrier_every
        self._kill_at = kill_at
        self._stop_at = stop_at

    def run(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        if self.shared_nothing:
            # As on a cluster, where each subtask is wanted where it ran before.
            ran = dict.fromkeys(state.tables, "elsewhere")
            state = replace(state, homes=ran)
        try:
            result = super().run(request, state)
            assert self.at_home, "the plan has lost its partitions"
        except Exception as error:
            self.error = error
            raise
        self.batches += 1
        if self.batches == self._kill_at:
            raise Killed
        if self.batches == self._stop_at:
            self._link.trigger(then_stop=True)
        elif self._barrier_every and self.batches % self._barrier_every == 0:
            self._link.trigger()
        return result


class _MiniController:
    """Stands at the other end of the link."""

    def __init__(
        self, harness: PipelineHarness, start: Start, newest: CheckpointRef | None
    ) -> None:
        self.inbox = Inbox()
        self.finished = False
        self.failures: list[TaskFailed] = []
        self._harness = harness
        self._start = start
        self._parent = start.plan.checkpoint
        self._replayed = tuple(r.epoch for r in start.plan.replays)
        self._newest = newest
        self.recorded = newest.epoch if newest else Epoch(0)
        self._in_flight: Epoch | None = None
        self._then_stop = False
        self._acks: dict[tuple[OperatorId, int], SubtaskAcked] = {}
        self._publishing: set[OperatorId] = set()

    def trigger(self, *, then_stop: bool = False) -> None:
        """Start a checkpoint, unless one is in flight."""
        self._then_stop = self._then_stop or then_stop
        if self._in_flight is not None:
            return
        self._in_flight = Epoch(self.recorded + 1)
        self._acks = {}
        self.inbox.receive(
            Barrier(
                generation=self._start.generation,
                epoch=self._in_flight,
                attempt=1,
                then_stop=self._then_stop,
            )
        )

    def send(self, message: WorkerMessage) -> None:
        if isinstance(message, SubtaskAcked):
            self._acks[message.ack.operator, message.ack.subtask] = message
        elif isinstance(message, EpochCutDone):
            self._record(message)
        elif isinstance(message, SinkPublished):
            self._published(message)
        elif isinstance(message, SourcesFinished):
            self.finished = True
            self.trigger(then_stop=True)
        elif isinstance(message, TaskFailed):
            self.failures.append(message)
            self._stop()

    def _record(self, message: EpochCutDone) -> None:
        graph, parallelism = self._start.graph, self._start.parallelism
        result = write_checkpoint(
            self._harness.store,
            CheckpointFacts(
                job=JOB,
                generation=self._start.generation,
                epoch=message.epoch,
                attempt=message.attempt,
                parallelism=parallelism,
                fingerprint=graph.fingerprint(),
                kinds={o.id: o.spec.kind for o in graph.checkpointed()},
                parent=self._parent,
                replayed=self._replayed,
                previous=self._newest,
                cut=message.cut,
                acks=tuple(a.ack for a in self._acks.values()),
                created_ms=0,
            ),
        )
        assert isinstance(result, Recorded | AlreadyRecorded), result
        self._parent = self._newest = CheckpointRef(
            generation=self._start.generation, epoch=message.epoch
        )
        self._replayed = ()
        sinks = tuple(self._sink_commit(o.id, message.epoch) for o in graph.sinks())
        self._publishing = {s.operator for s in sinks}
        self.inbox.receive(
            Commit(generation=self._start.generation, epoch=message.epoch, sinks=sinks)
        )

    def _sink_commit(self, sink: OperatorId, epoch: Epoch) -> SinkCommit:
        acks = [self._acks[sink, s].ack for s in range(self._start.parallelism)]
        return SinkCommit(
            operator=sink,
            epoch=epoch,
            staged=tuple(f for a in acks for f in a.staged),
            commit=acks[0].globals.get("commit"),
        )

    def _published(self, message: SinkPublished) -> None:
        if message.epoch != self._in_flight:
            return  # a publish of a recovery, before any barrier
        self._publishing.discard(message.operator)
        if self._publishing:
            return
        ref = CheckpointRef(generation=self._start.generation, epoch=message.epoch)
        write_committed(self._harness.store, JOB, ref)
        self.recorded, self._in_flight = message.epoch, None
        if self._then_stop:
            self._stop()

    def _stop(self) -> None:
        self.inbox.receive(Stop(generation=self._start.generation))
