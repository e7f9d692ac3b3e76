"""Headgate's worker loop, engine and checkpoint protocol in this process, batch by batch.

What a timer and a network would blur is fixed here: every micro-batch reads the same number of
files as the peer's, and every one is an epoch whose checkpoint is recorded and published before
the next begins, which is what Structured Streaming promises per micro-batch. With
`checkpoint_seconds` the checkpoints follow a timer instead, beside the running micro-batches.

The controller is played by `Lockstep`: it answers the loop's messages and calls the protocol, as
the real one does. `whole_system.py` measures with the real one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.results import Batch, Checkpoint
from headgate.connectors.base import KnowingSource, KnownRows, Source, SourceCut
from headgate.core.checkpoint import CheckpointRef, LoadingPlan, SinkCommit, SubtaskAck
from headgate.core.errors import InternalError
from headgate.core.ids import NO_EPOCH, Epoch, JobId, OperatorId
from headgate.core.messages import (
    Barrier,
    Commit,
    EpochCutDone,
    SinkPublished,
    SourcesFinished,
    Start,
    Stop,
    SubtaskAcked,
    TaskFailed,
    WorkerMessage,
)
from headgate.core.model import JsonValue
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult, Engine
from headgate.engine.worker.link import Inbox
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.protocol.writes import Recorded, write_checkpoint, write_committed
from headgate.storage.counting import CountingStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = JobId("job_bench")
WAIT_SECONDS = 600.0


class FixedCuts:
    """A source that takes the same number of rows every time, whatever the loop's pace says.

    Every cut waits for `before_cut` first.
    """

    def __init__(self, source: Source, rows: int) -> None:
        self._source = source
        self._rows = rows
        self.before_cut: Callable[[], None] = lambda: None

    def initial_position(self) -> JsonValue:
        return self._source.initial_position()

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        self.before_cut()
        return self._source.plan_cut(position, self._rows, now_ms)

    def known(self, start: JsonValue, end: JsonValue, column: str) -> KnownRows | None:
        source = self._source
        return source.known(start, end, column) if isinstance(source, KnowingSource) else None

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        return self._source.read(spark, start, end, parallelism)


@dataclass
class TimedEngine(Engine):
    """Notes when micro-batches begin and end, and what they report."""

    begun: float = field(default_factory=time.perf_counter)
    timed: list[tuple[float, float, BatchRequest, BatchResult]] = field(default_factory=list)
    after_batch: Callable[[], None] = lambda: None

    def run(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        started = time.perf_counter() - self.begun
        result = super().run(request, state)
        self.timed.append((started, time.perf_counter() - self.begun, request, result))
        self.after_batch()
        return result

    def batches(self) -> tuple[Batch, ...]:
        """Return the micro-batches; one ends when the next begins, or where all ended."""
        starts = [started for started, _, _, _ in self.timed]
        found = []
        for number, (started, ended, request, result) in enumerate(self.timed):
            rows = sum(seen.rows for seen in result.observed.values())
            following = starts[number + 1] if number + 1 < len(starts) else ended
            checkpoint = request.context.barrier
            parts = dict(result.timings) | _task_parts(result)
            found.append(Batch(rows, started, following, checkpoint, parts))
        return tuple(found)


def _task_parts(result: BatchResult) -> dict[str, float]:
    """Return the longest time of any subtask, by part: the subtasks run side by side."""
    parts: dict[str, float] = {}
    for report in result.reports.values():
        for name, milliseconds in report.timings.items():
            label = f"{report.operator.partition('-')[0]} {name}"
            parts[label] = max(parts.get(label, 0.0), milliseconds)
    return parts


@dataclass
class _Flight:
    epoch: Epoch
    started: float
    acks: dict[tuple[OperatorId, int], SubtaskAck] = field(default_factory=dict)
    publishing: set[OperatorId] = field(default_factory=set)
    objects_before: int = 0
    bytes_before: int = 0
    cut_done: float = 0.0
    # Nothing happened in it.
    empty: bool = False


class Lockstep:
    """The other end of the loop's link."""

    def __init__(self, start: Start, store: CountingStore, checkpoint_seconds: float) -> None:
        self.inbox = Inbox()
        self.checkpoints: list[Checkpoint] = []
        self.failures: list[TaskFailed] = []
        self._start = start
        self._store = store
        self._interval = checkpoint_seconds
        self._previous: CheckpointRef | None = None
        self._flight: _Flight | None = None
        self._last_started = time.perf_counter()
        self._finished = self._final = False
        self._changed = threading.Condition()
        if not checkpoint_seconds:
            self._barrier()

    def wait_for_commit(self) -> None:
        """Keep the loop from planning its next cut until its last one is committed."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._must_wait(), WAIT_SECONDS):
                raise InternalError("the checkpoint was not published in time")

    def _must_wait(self) -> bool:
        flight = self._flight
        return not self._interval and flight is not None and flight.cut_done > 0

    def batch_done(self) -> None:
        """Look at the clock, between micro-batches."""
        due = time.perf_counter() - self._last_started >= self._interval
        if due and self._flight is None:
            self._barrier()

    def send(self, message: WorkerMessage) -> None:
        if isinstance(message, SubtaskAcked):
            assert self._flight is not None
            self._flight.acks[message.ack.operator, int(message.ack.subtask)] = message.ack
        elif isinstance(message, EpochCutDone):
            self._record(message)
        elif isinstance(message, SinkPublished):
            self._published(message)
        elif isinstance(message, SourcesFinished):
            self._finished = True
            if self._flight is None:
                self._barrier()
        elif isinstance(message, TaskFailed):
            self.failures.append(message)
            with self._changed:
                self._flight = None
                self._changed.notify_all()
            self.inbox.receive(Stop(generation=self._start.generation))

    def _barrier(self) -> None:
        epoch = Epoch((self._previous.epoch if self._previous else NO_EPOCH) + 1)
        counts = self._store.counts
        self._last_started = time.perf_counter()
        self._flight = _Flight(
            epoch,
            self._last_started,
            objects_before=counts.puts + counts.creates,
            bytes_before=counts.bytes_written,
        )
        self._final = self._finished
        self.inbox.receive(
            Barrier(
                generation=self._start.generation, epoch=epoch, attempt=1, then_stop=self._final
            )
        )

    def _record(self, message: EpochCutDone) -> None:
        flight, graph = self._flight, self._start.graph
        assert flight is not None
        flight.cut_done = time.perf_counter()
        flight.empty = not message.cut.batches
        result = write_checkpoint(
            self._store,
            CheckpointFacts(
                job=JOB,
                generation=self._start.generation,
                epoch=message.epoch,
                attempt=message.attempt,
                parallelism=self._start.parallelism,
                fingerprint=graph.fingerprint(),
                kinds={o.id: o.spec.kind for o in graph.checkpointed()},
                parent=self._previous,
                cut=message.cut,
                acks=tuple(flight.acks.values()),
                created_ms=0,
            ),
        )
        if not isinstance(result, Recorded):
            raise InternalError(f"the checkpoint was not recorded: {result}")
        self._previous = CheckpointRef(generation=self._start.generation, epoch=message.epoch)
        sinks = tuple(self._commit_of(o.id, flight) for o in graph.sinks())
        flight.publishing = {sink.operator for sink in sinks}
        self.inbox.receive(
            Commit(generation=self._start.generation, epoch=message.epoch, sinks=sinks)
        )

    def _commit_of(self, sink: OperatorId, flight: _Flight) -> SinkCommit:
        acks = [flight.acks[sink, subtask] for subtask in range(self._start.parallelism)]
        return SinkCommit(
            operator=sink,
            epoch=flight.epoch,
            staged=tuple(file for ack in acks for file in ack.staged),
            commit=acks[0].globals.get("commit"),
        )

    def _published(self, message: SinkPublished) -> None:
        flight = self._flight
        assert flight is not None
        assert self._previous is not None
        flight.publishing.discard(message.operator)
        if flight.publishing:
            return
        write_committed(self._store, JOB, self._previous)
        self.checkpoints.append(self._measured(flight))
        with self._changed:
            self._flight = None
            self._changed.notify_all()
        if self._final:
            self.inbox.receive(Stop(generation=self._start.generation))
        elif self._finished or not (self._interval or flight.empty):
            # After an empty epoch the loop is left alone, so that it can see that all has ended.
            self._barrier()

    def _measured(self, flight: _Flight) -> Checkpoint:
        """Count everything: runs and staged output of the tasks, metadata and records here."""
        acks = flight.acks.values()
        counts = self._store.counts
        in_tasks = max(ack.timings.snapshot_ms + ack.timings.upload_ms for ack in acks)
        after = (time.perf_counter() - flight.cut_done) * 1000
        return Checkpoint(
            epoch=int(flight.epoch),
            milliseconds=in_tasks + after,
            bytes=counts.bytes_written - flight.bytes_before + sum(a.new_bytes for a in acks),
            objects=counts.puts
            + counts.creates
            - flight.objects_before
            + sum(a.new_objects for a in acks),
        )


def from_scratch(parallelism: int) -> LoadingPlan:
    return LoadingPlan(job=JOB, parallelism=parallelism)
