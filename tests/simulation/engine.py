"""The engine of a simulated worker: real rows, runs and staged files in the store, but no Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.errors import CheckpointInvalid, ExternalError
from headgate.core.ids import Epoch, JobId, OperatorId, Subtask
from headgate.core.messages import Start
from headgate.core.model import JsonValue
from headgate.engine.worker.rules.actions import PlanCut, RunBatch
from headgate.engine.worker.rules.facts import BatchDone, CutPlanned, PlannedCut, RowsSeen
from headgate.engine.worker.rules.state import PrepareCommit
from headgate.state.protocol import layout
from tests.simulation.bucket import open_view
from tests.simulation.places import Who
from tests.simulation.tables import Tables
from tests.simulation.target import format_rows
from tests.simulation.violation import Violation
from tests.simulation.workload import SOURCE_IDLE_MS, Row, SourcePlan

if TYPE_CHECKING:
    from tests.simulation.worker import Worker


class Engine:
    """What a generation computes, and where it publishes."""

    def __init__(self, worker: Worker, start: Start) -> None:
        self._worker = worker
        self._start = start
        self._world = world = worker.world
        self._workload = world.workloads[worker.job]
        self._store = open_view(world.bucket, worker.job, worker, world.faults, world.luck)
        self.tables = Tables(self._workload, start, self._store)
        # Sink -> rows since the last barrier, by subtask.
        self._buffers: dict[OperatorId, dict[int, list[Row]]] = {}
        watch = world.checks.jobs[worker.job]
        self._places = watch.places
        plan = start.plan
        goes_on = plan.checkpoint is not None or bool(plan.replays)
        self._who = Who(worker.job, int(start.generation), goes_on)
        self._published: set[tuple[OperatorId, Epoch]] = set()
        self._began_ms = world.scheduler.now_ms
        # The sources that truly had nothing to read, and for long, when they were last looked at.
        self.idle: frozenset[OperatorId] = frozenset()

    def _is_zombie(self) -> bool:
        """Whether a later generation was claimed, so that this one should be gone."""
        claimed = self._world.checks.jobs[self._worker.job].claimed_ms
        return max(claimed, default=0) > self._start.generation

    # ---- resuming ----------------------------------------------------------------------------

    def check_targets(self, resuming: Mapping[OperatorId, bool]) -> None:
        """Have every sink look at its target, as the real ones do."""
        self._worker.crash_point()
        for sink, goes_on in resuming.items():
            self._places[sink].check(self._who, resuming=goes_on)

    def load(self) -> None:
        self.tables.load()

    # ---- micro-batches -----------------------------------------------------------------------

    def plan_cut(self, work: PlanCut) -> CutPlanned:
        if self._world.faults.hits("worker_suspended"):
            # Its host slept for no time at all, but its clock says otherwise.
            leap_ms = self._world.faults.between("worker_suspended", 1_000, 60_000)
            self._worker.clock_offset_ms += leap_ms
        planned: dict[OperatorId, PlannedCut] = {}
        idle: set[OperatorId] = set()
        for source in self._workload.sources:
            if source.id in work.positions:
                position = work.positions[source.id]
                assert isinstance(position, int)
                planned[source.id] = self._plan_source(source, position)
                if self._is_idle(source, position):
                    idle.add(source.id)
        self.idle = frozenset(idle)
        return CutPlanned(planned)

    def _is_idle(self, source: SourcePlan, position: int) -> bool:
        """Whether a source has nothing to read, and has had nothing for a while, in true time.

        A quarter of the time allowed is surely too short, however the worker's clock leaps.
        """
        now_ms = self._world.scheduler.now_ms
        if source.available(now_ms) > position:
            return False
        last_ms = source.available_since_ms(position - 1) if position else 0
        return now_ms - max(last_ms, self._began_ms) >= SOURCE_IDLE_MS // 4

    def _plan_source(self, source: SourcePlan, position: int) -> PlannedCut:
        there = source.available(self._world.scheduler.now_ms)
        end = max(position, min(there, position + self._workload.batch_rows))
        # Every other source knows its rows before they are read.
        knows = source.number % 2 == 0 and end > position
        return PlannedCut(
            end=end,
            rows=end - position,
            lag_rows=max(0, there - end),
            finished=source.bounded and end >= source.total,
            known=RowsSeen(source.event_time(end - 1), end - position) if knows else None,
        )

    def run_batch(self, work: RunBatch) -> BatchDone:
        if self._is_zombie():
            self._world.counts["micro-batches of zombie workers"] += 1
        if work.suppress_output:
            self._world.counts["micro-batches run again"] += 1
        began_ms = self._world.scheduler.now_ms
        self._worker.sleep(self._world.luck.randint(5, 60))
        if self._world.faults.hits("batch_slow"):
            self._worker.sleep(self._world.faults.between("batch_slow", 1_000, 60_000))
        self._worker.crash_point()
        observed: dict[OperatorId, RowsSeen] = {}
        for source in self._workload.sources:
            start, end = work.cut.start.get(source.id, 0), work.cut.end.get(source.id, 0)
            assert isinstance(start, int)
            assert isinstance(end, int)
            for index in range(start, end):
                self._take(source.number, index, work)
            if end > start:
                observed[source.id] = RowsSeen(source.event_time(end - 1), end - start)
        for record in self.tables.close_windows(work.cut.watermark):
            self._emit(*record, work)
        staged: dict[OperatorId, tuple[StagedFile, ...]] = {}
        if work.barrier:
            emitted = max(work.cut.watermark, work.cut.emitted_watermark)
            self.tables.flush(work.epoch, work.batch, emitted)
            staged = self._stage(work.epoch, work.batch)
        unflushed = self.tables.has_changes or bool(self._buffers)
        return BatchDone(
            elapsed_ms=float(self._world.scheduler.now_ms - began_ms),
            observed=observed,
            staged=staged,
            tables=None if self.tables.has_changes else self.tables.state(),
            next_timer=self.tables.next_timer(),
            unflushed=unflushed,
        )

    def _take(self, source: int, index: int, work: RunBatch) -> None:
        if not self._workload.windowed:
            self._emit(source, index, work)
        else:
            self.tables.hold(source, index, work.cut.emitted_watermark)

    def _emit(self, source: int, index: int, work: RunBatch) -> None:
        row = self.tables.process(source, index, work.cut.watermark)
        if not work.suppress_output:
            self._buffer(row)

    def _buffer(self, row: Row) -> None:
        for number, sink in enumerate(self._workload.sinks):
            if self._workload.sink_takes(number, row[2]):
                subtask = row[2] % self._start.parallelism
                self._buffers.setdefault(sink, {}).setdefault(subtask, []).append(row)

    def _stage(self, epoch: Epoch, batch: int) -> dict[OperatorId, tuple[StagedFile, ...]]:
        """Make the rows since the last barrier durable, one file per subtask of each sink."""
        staged: dict[OperatorId, tuple[StagedFile, ...]] = {}
        for sink, by_subtask in self._buffers.items():
            folder = layout.staging_folder(self._start.generation, sink, epoch)
            files: list[StagedFile] = []
            for subtask, rows in sorted(by_subtask.items()):
                data = format_rows(rows)
                path = f"{folder}{batch:05}-{subtask:03}.json"
                self._store.put(path, data)
                files.append(
                    StagedFile(
                        path=path,
                        bytes=len(data),
                        checksum=f"sha256:{hashlib.sha256(data).hexdigest()}",
                        rows=len(rows),
                        subtask=Subtask(subtask),
                        epoch=epoch,
                    )
                )
            staged[sink] = tuple(files)
        self._buffers = {}
        return staged

    # ---- sinks -------------------------------------------------------------------------------

    def prepare_commit(self, sink: OperatorId) -> PrepareCommit:
        def prepare(
            job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
        ) -> tuple[JsonValue, JsonValue]:
            return self._places[sink].prepare_commit(staged, state)

        return prepare

    def publish(self, commit: SinkCommit) -> None:
        """Make one sink's part of one epoch visible, file by file."""
        world, worker, place = self._world, self._worker, self._places[commit.operator]
        if (commit.operator, commit.epoch) in self._published:
            raise Violation("published_again", f"{commit.operator} epoch {commit.epoch}")
        place.begin(commit)
        for number, file in enumerate(commit.staged):
            worker.crash_point()
            if world.faults.hits("publish_slow"):
                worker.sleep(world.faults.between("publish_slow", 1_000, 30_000))
            data = self._store.get(file.path)
            if f"sha256:{hashlib.sha256(data).hexdigest()}" != file.checksum:
                raise CheckpointInvalid(
                    f"staged output {file.path} does not match its checksum", code="corrupt"
                )
            if self._is_zombie():
                world.counts["files published by zombie workers"] += 1
            if world.faults.hits("publish_failed"):
                raise ExternalError("the target does not answer", code="unavailable")
            # It counts as published if the target has taken it.
            place.write(self._who, commit, number, data)
            world.publish(worker, commit, file, data)
        self._published.add((commit.operator, commit.epoch))
        world.publish_done(worker, commit)
