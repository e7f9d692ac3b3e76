"""What a worker does: a model of `worker/loop.py` over small states, with the real epoch ledger.

Restore, publish what is pending, rebuild damaged epochs, then batch after batch; at a barrier runs
and staged output are made durable and acknowledged subtask by subtask. Publishing goes on beside
the micro-batches.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from headgate.core.checkpoint import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    BatchCut,
    EpochCut,
    EpochReplay,
    SinkCommit,
    StagedFile,
    SubtaskAck,
)
from headgate.core.errors import CheckpointInvalid, ExternalError, HeadgateError, error_info
from headgate.core.ids import NO_EPOCH, Epoch, OperatorId, Subtask
from headgate.core.messages import (
    Barrier,
    Commit,
    EpochCutDone,
    Restored,
    SinkPublished,
    SourcesFinished,
    Start,
    Stop,
    SubtaskAcked,
    TaskFailed,
    WorkerMessage,
    WorkerStopped,
)
from headgate.core.model import JsonValue
from headgate.engine.worker.epoch import EpochLedger, Segment
from headgate.engine.worker.watermark import WatermarkTracker
from headgate.state.protocol import layout
from tests.simulation.bucket import open_view
from tests.simulation.fibers import Fiber
from tests.simulation.tables import Tables
from tests.simulation.target import format_rows
from tests.simulation.workload import Row

if TYPE_CHECKING:
    from tests.simulation.worker import Worker

IDLE_MS_MAX = 250
SOURCE_IDLE_MS = 3_000


class Loop:
    """One generation, from `Start` to its end."""

    def __init__(self, worker: Worker, start: Start) -> None:
        self._worker = worker
        self._start = start
        self._world = world = worker.world
        self._workload = workload = world.workloads[worker.job]
        self._store = open_view(world.bucket, worker.job, worker, world.faults, world.luck)
        plan = start.plan
        cut = plan.cut
        self._tracker = WatermarkTracker.restore(
            [source.id for source in workload.sources],
            SOURCE_IDLE_MS,
            worker.now_ms(),
            cut.source_watermarks if cut else None,
            cut.watermark if cut else WATERMARK_MIN,
        )
        self._emitted = cut.emitted_watermark if cut else WATERMARK_MIN
        self._positions: dict[OperatorId, JsonValue] = {}
        for source in workload.sources:
            known = plan.globals.get(source.id, {})
            self._positions[source.id] = known.get("position", 0)
            if known.get("finished"):
                self._tracker.finish(source.id)
        self._ledger = EpochLedger(
            recorded=plan.checkpoint.epoch if plan.checkpoint else NO_EPOCH,
            sink_states={s: plan.globals.get(s, {}).get("state") for s in workload.sinks},
        )
        self._tables = Tables(workload, start, self._store)
        # Sink -> rows since the last barrier, by subtask.
        self._buffers: dict[OperatorId, dict[int, list[Row]]] = {}
        self.batches = 0
        self._barrier: Barrier | None = None
        self._acknowledged = (NO_EPOCH, 0)
        self._acknowledgement: list[SubtaskAcked | EpochCutDone] = []
        self._stopping = False
        self._reading = True
        self._told_finished = False
        self._publisher = Publisher(self)

    # ---- the whole life ----------------------------------------------------------------------

    def run(self) -> None:
        self._resume()
        self._send(Restored(generation=self._start.generation))
        self._publisher.begin()
        self._work()
        self._publisher.close()
        self._send(WorkerStopped(generation=self._start.generation))

    def _work(self) -> None:
        idle_ms = 0
        while not self._stopping:
            if self._take_messages(idle_ms):
                idle_ms = 0
            if self._stopping:
                return
            self._worker.crash_point()
            idle_ms = 0 if self._step() else min(IDLE_MS_MAX, idle_ms * 2 + 10)

    def _resume(self) -> None:
        self._tables.load()
        for commit in self._start.plan.pending_commits:
            self.publish(commit)
        for replay in self._start.plan.replays:
            self._replay(replay)

    def _replay(self, replay: EpochReplay) -> None:
        self._world.counts["epochs rebuilt"] += 1
        for cut in replay.cut.batches:
            self._run_batch(cut, barrier=None, suppress_output=True)
        self._tracker.observed.update(replay.cut.source_watermarks)
        self._tracker.reached = max(self._tracker.reached, replay.cut.watermark)
        self._emitted = replay.cut.emitted_watermark
        self._ledger.recorded = replay.epoch
        self._ledger.current = Segment()

    def _is_zombie(self) -> bool:
        """Whether a later generation was claimed, so that this one should be gone."""
        claimed = self._world.checks.jobs[self._worker.job].claimed_ms
        return max(claimed, default=0) > self._start.generation

    def references(self) -> set[str]:
        """Return the files that the next checkpoint of this generation may name."""
        segments = [self._ledger.current, self._ledger.cut or Segment()]
        staged = {
            file.path for segment in segments for files in segment.staged.values() for file in files
        }
        return staged | self._tables.references()

    # ---- messages ----------------------------------------------------------------------------

    def _send(self, message: WorkerMessage) -> None:
        self._worker.send(message)

    def _take_messages(self, wait_ms: int) -> bool:
        taken = False
        while True:
            message = self._worker.receive(0 if taken else max(wait_ms, 1))
            if message is None:
                return taken
            taken = True
            if isinstance(message, Barrier | Commit | Start | Stop):
                if message.generation == self._start.generation:
                    self._handle(message)
            else:
                self._stopping = True

    def _handle(self, message: Barrier | Commit | Start | Stop) -> None:
        if isinstance(message, Barrier):
            self._take_barrier(message)
        elif isinstance(message, Commit):
            self._ledger.record(message.epoch)
            self._publisher.submit(message)
        elif isinstance(message, Stop):
            self._stopping = True

    def _take_barrier(self, barrier: Barrier) -> None:
        heard = (barrier.epoch, barrier.attempt)
        waiting = self._barrier
        if heard == self._acknowledged:
            for message in self._acknowledgement:
                self._send(message)
        elif heard > self._acknowledged and (
            waiting is None or heard > (waiting.epoch, waiting.attempt)
        ):
            self._barrier = barrier

    # ---- micro-batches -----------------------------------------------------------------------

    def _step(self) -> bool:
        barrier, self._barrier = self._barrier, None
        cut, has_input = self._plan_cut(barrier)
        due = self.batches == 0 and self._tables.any_loaded
        if has_input or due or (barrier is not None and self._has_unflushed()):
            self._run_batch(cut, barrier=barrier, suppress_output=False)
        elif barrier is not None:
            self._emitted = max(self._emitted, cut.watermark)
            self._acknowledge(barrier)
        else:
            self._emitted = max(self._emitted, cut.watermark)
            self._tell_finished()
            return False
        self._tell_finished()
        return True

    def _plan_cut(self, barrier: Barrier | None) -> tuple[BatchCut, bool]:
        now_ms = self._worker.now_ms()
        ends, rows = dict(self._positions), 0
        for source in self._workload.sources:
            if source.id in self._tracker.finished or not self._reading:
                continue
            position = self._position(source.id)
            end = min(source.available(self._world.scheduler.now_ms), position + self._limit())
            ends[source.id] = max(end, position)
            rows += max(0, end - position)
            # Every other source knows its rows before they are read.
            if source.number % 2 == 0 and end > position:
                self._tracker.observe(source.id, source.event_time(end - 1), now_ms)
            if source.bounded and end >= source.total:
                self._tracker.finish(source.id)
        if barrier is not None and barrier.then_stop:
            self._reading = False
        cut = BatchCut(
            start=dict(self._positions),
            end=ends,
            watermark=self._tracker.current(now_ms),
            rows=rows,
            now_ms=now_ms,
        )
        return cut, ends != self._positions

    def _position(self, source: OperatorId) -> int:
        position = self._positions[source]
        assert isinstance(position, int)
        return position

    def _limit(self) -> int:
        return self._workload.batch_rows

    def _run_batch(self, cut: BatchCut, *, barrier: Barrier | None, suppress_output: bool) -> None:
        self.batches += 1
        if self._is_zombie():
            self._world.counts["micro-batches of zombie workers"] += 1
        self._worker.sleep(self._world.luck.randint(5, 60))
        self._worker.crash_point()
        for source in self._workload.sources:
            start, end = cut.start.get(source.id, 0), cut.end.get(source.id, 0)
            assert isinstance(start, int)
            assert isinstance(end, int)
            for index in range(start, end):
                row = self._tables.process(source.number, index, cut.watermark)
                if not suppress_output:
                    self._buffer(row)
        staged: dict[OperatorId, tuple[StagedFile, ...]] = {}
        if barrier is not None:
            self._tables.flush(barrier.epoch, self.batches)
            staged = self._stage(barrier.epoch)
        self._positions = dict(cut.end)
        self._emitted = max(self._emitted, cut.watermark)
        for source in self._workload.sources:
            end = cut.end.get(source.id, 0)
            if end != cut.start.get(source.id, 0) and isinstance(end, int):
                seen = source.event_time(end - 1)
                self._tracker.observe(source.id, seen, self._worker.now_ms())
        self._ledger.add(cut, staged)
        if barrier is not None:
            self._acknowledge(barrier)

    def _buffer(self, row: Row) -> None:
        for number, sink in enumerate(self._workload.sinks):
            if self._workload.sink_takes(number, row[2]):
                subtask = row[2] % self._start.parallelism
                self._buffers.setdefault(sink, {}).setdefault(subtask, []).append(row)

    def _has_unflushed(self) -> bool:
        return self._tables.has_changes or bool(self._buffers)

    def _tell_finished(self) -> None:
        ended = len(self._tracker.finished) == len(self._workload.sources)
        if ended and self._emitted == WATERMARK_MAX and not self._told_finished:
            self._told_finished = True
            self._send(SourcesFinished(generation=self._start.generation))

    # ---- acknowledging -----------------------------------------------------------------------

    def _stage(self, epoch: Epoch) -> dict[OperatorId, tuple[StagedFile, ...]]:
        """Make the rows since the last barrier durable, one file per subtask of each sink."""
        staged: dict[OperatorId, tuple[StagedFile, ...]] = {}
        for sink, by_subtask in self._buffers.items():
            folder = layout.staging_folder(self._start.generation, sink, epoch)
            files: list[StagedFile] = []
            for subtask, rows in sorted(by_subtask.items()):
                data = format_rows(rows)
                path = f"{folder}{self.batches:05}-{subtask:03}.json"
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

    def _acknowledge(self, barrier: Barrier) -> None:
        self._worker.crash_point()
        segment = self._ledger.close(barrier.epoch)
        generation, epoch, attempt = barrier.generation, barrier.epoch, barrier.attempt
        self._acknowledged, self._acknowledgement = (epoch, attempt), []
        self._told_finished = False
        for ack in self._acks(segment):
            self._say(SubtaskAcked(generation=generation, epoch=epoch, attempt=attempt, ack=ack))
            self._worker.crash_point()
        cut = EpochCut(
            batches=tuple(segment.cuts),
            watermark=self._tracker.current(self._worker.now_ms()),
            source_watermarks=dict(self._tracker.observed),
            emitted_watermark=self._emitted,
        )
        self._say(EpochCutDone(generation=generation, epoch=epoch, attempt=attempt, cut=cut))

    def _say(self, message: SubtaskAcked | EpochCutDone) -> None:
        self._acknowledgement.append(message)
        self._send(message)

    def _acks(self, segment: Segment) -> list[SubtaskAck]:
        acks: list[SubtaskAck] = []
        for source in self._workload.sources:
            position: dict[str, JsonValue] = {
                "position": self._positions[source.id],
                "finished": source.id in self._tracker.finished,
            }
            acks.append(SubtaskAck(operator=source.id, subtask=Subtask(0), globals=position))
        for operator in self._workload.stateful:
            acks.extend(
                SubtaskAck(
                    operator=operator,
                    subtask=Subtask(subtask),
                    tables=self._tables.state(operator, subtask),
                )
                for subtask in range(self._start.parallelism)
            )
        for sink in self._workload.sinks:
            acks.extend(self._sink_acks(sink, segment.staged.get(sink, [])))
        return acks

    def _sink_acks(self, sink: OperatorId, staged: list[StagedFile]) -> list[SubtaskAck]:
        """A sink's state is the number of rows before the epoch: a wrong one will be noticed."""
        before = self._ledger.sink_states.get(sink) or 0
        assert isinstance(before, int)
        after = before + sum(file.rows for file in staged)
        self._ledger.cut_sink_states[sink] = after
        parallelism = self._start.parallelism
        return [
            SubtaskAck(
                operator=sink,
                subtask=Subtask(subtask),
                globals={"commit": {"before": before}, "state": after} if subtask == 0 else {},
                staged=tuple(file for file in staged if file.subtask % parallelism == subtask),
            )
            for subtask in range(parallelism)
        ]

    # ---- publishing --------------------------------------------------------------------------

    def publish(self, commit: SinkCommit) -> None:
        """Make one sink's part of one epoch visible, file by file, and say so."""
        world, worker = self._world, self._worker
        for file in commit.staged:
            worker.crash_point()
            data = self._store.get(file.path)
            if f"sha256:{hashlib.sha256(data).hexdigest()}" != file.checksum:
                raise CheckpointInvalid(
                    f"staged output {file.path} does not match its checksum", code="corrupt"
                )
            if self._is_zombie():
                world.counts["files published by zombie workers"] += 1
            if world.faults.hits("publish_failed"):
                raise ExternalError("the target does not answer", code="target")
            world.publish(worker, commit, file, data)
        world.publish_done(worker, commit)
        self._send(
            SinkPublished(
                generation=self._start.generation, epoch=commit.epoch, operator=commit.operator
            )
        )

    def publish_failed(self, error: HeadgateError) -> None:
        self._send(TaskFailed(generation=self._start.generation, error=error_info(error)))


class Publisher:
    """Publishes commits one after the other, beside the loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._worker = loop._worker
        self._commits: list[Commit | None] = []
        self._fiber: Fiber | None = None
        self._waiting = False
        self._closer: Fiber | None = None
        self._over = False

    def begin(self) -> None:
        # Its own fiber is started by the scheduler: one fiber must not run inside another.
        self._worker.after(0, self._spawn)

    def _spawn(self) -> None:
        self._worker.spawn(self._run)

    def submit(self, commit: Commit) -> None:
        self._commits.append(commit)
        self._wake()

    def close(self) -> None:
        """Finish what was submitted, then end."""
        self._commits.append(None)
        self._wake()
        if not self._over:
            self._closer = self._worker.wait()
            self._closer.suspend()
            self._worker.check_alive()

    def _wake(self) -> None:
        fiber = self._fiber
        if fiber is not None and self._waiting:
            self._waiting = False
            self._worker.after(0, lambda: self._worker.wake(fiber))

    def _run(self) -> None:
        self._fiber = self._worker.wait()
        while (commit := self._next()) is not None:
            try:
                for sink in commit.sinks:
                    self._loop.publish(sink)
            except HeadgateError as error:
                self._loop.publish_failed(error)
                break
        self._over = True
        closer = self._closer
        if closer is not None:
            self._worker.after(0, lambda: self._worker.wake(closer))

    def _next(self) -> Commit | None:
        while not self._commits:
            self._waiting = True
            assert self._fiber is not None
            self._fiber.suspend()
            self._worker.check_alive()
        return self._commits.pop(0)
