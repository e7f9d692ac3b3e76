"""What a worker does, in order: restore, replay, publish what is pending, then batch after batch.

The loop decides when to run a micro-batch and where it ends; it never decides whether a checkpoint
counts. At a barrier it cuts every source where it stands, makes the micro-batch that follows the
last of its epoch, and acknowledges subtask by subtask.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from headgate.connectors.base import SourceCut
from headgate.core.checkpoint import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    BatchCut,
    EpochCut,
    EpochReplay,
    SinkCommit,
    SubtaskAck,
    SubtaskTimings,
)
from headgate.core.errors import ErrorInfo
from headgate.core.failpoints import failpoint
from headgate.core.graph import Operator
from headgate.core.ids import NO_EPOCH, Epoch, OperatorId, Subtask
from headgate.core.messages import (
    Barrier,
    Commit,
    ControllerMessage,
    EpochCutDone,
    Heartbeat,
    Progress,
    Restored,
    SinkPublished,
    SourcesFinished,
    Start,
    Stop,
    SubtaskAcked,
    TaskFailed,
    WorkerStopped,
)
from headgate.core.model import JsonValue
from headgate.engine.batch.context import BatchContext, BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult, Engine, discard_scratch
from headgate.engine.batch.reports import Reports
from headgate.engine.batch.restore import preload_runs, restored_state
from headgate.engine.worker.epoch import EpochLedger, Segment
from headgate.engine.worker.link import Link, LinkLost
from headgate.engine.worker.pace import BatchPace
from headgate.engine.worker.progress import after_batch
from headgate.engine.worker.publisher import Publisher
from headgate.engine.worker.watermark import WatermarkTracker
from headgate.state.tables.version import state_from_version
from headgate.storage import job_folder, open_store

IDLE_POLL_SECONDS_MAX = 0.25
FIRST_BARRIER_SECONDS_MAX = 0.25


class WorkerLoop:
    """One generation of one job, from `Start` to its end."""

    def __init__(
        self,
        start: Start,
        engine: Engine,
        link: Link,
        now_ms: Callable[[], int],
        cache_dir: str,
    ) -> None:
        self._start = start
        self._engine = engine
        self._link = link
        self._now_ms = now_ms
        self._cache_dir = cache_dir
        self._store = job_folder(open_store(start.settings.state_url), start.job)
        plan = start.plan
        cut = plan.cut
        self._sources = tuple(o.id for o in start.graph.sources())
        self._tracker = WatermarkTracker.restore(
            self._sources,
            start.settings.source_idle_ms,
            now_ms(),
            cut.source_watermarks if cut else None,
            cut.watermark if cut else WATERMARK_MIN,
        )
        self._emitted = cut.emitted_watermark if cut else WATERMARK_MIN
        self._positions: dict[OperatorId, JsonValue] = {}
        for source in self._sources:
            known = plan.globals.get(source, {})
            first = engine.sources[source].initial_position
            self._positions[source] = known["position"] if "position" in known else first()
            if known.get("finished"):
                self._tracker.finish(source)
        self._state: PipelineState = restored_state(plan)
        self._ledger = EpochLedger(
            recorded=plan.checkpoint.epoch if plan.checkpoint else NO_EPOCH,
            sink_states={
                o.id: plan.globals.get(o.id, {}).get("state") for o in start.graph.sinks()
            },
        )
        self._publisher = Publisher(
            start.job, engine.sinks, self._store, self._published, self._publish_failed
        )
        link.inbox.on_commit = self._publish
        self._pace = BatchPace(rows_max=start.settings.max_batch_rows)
        self._batch = 0
        self._barrier: Barrier | None = None
        # The last attempt that was cut, as (epoch, attempt), and what was said about it.
        self._acknowledged = (NO_EPOCH, 0)
        self._acknowledgement: list[SubtaskAcked | EpochCutDone] = []
        self._stopping = False
        self._reading = True
        self._told_finished = False
        self._lag_rows: int | None = None
        self.progress = Progress()

    # ---- the whole life ----------------------------------------------------------------------

    def run(self) -> None:
        """Run until the controller says stop, or is gone. Raises where a micro-batch fails."""
        timings = self._resume()
        failpoint("worker.after_restore")
        self._link.send(Restored(generation=self._start.generation, timings=timings))
        self._publisher.start()
        try:
            self._work()
        finally:
            self._publisher.close()
        self._link.send(WorkerStopped(generation=self._start.generation))

    def _work(self) -> None:
        # After a recovery a checkpoint is due at once: with its barrier in the first micro-batch,
        # what that one emits is published before the second.
        idle_seconds = FIRST_BARRIER_SECONDS_MAX if self._start.plan.checkpoint else 0.0
        while not self._stopping:
            if self._take_messages(idle_seconds):
                idle_seconds = 0.0
            if self._stopping:
                return
            worked = self._step()
            idle_seconds = 0.0 if worked else min(IDLE_POLL_SECONDS_MAX, idle_seconds * 2 + 0.01)

    def _resume(self) -> dict[str, float]:
        """Phases 4 and 5 before new input: load runs, finish publishes, rebuild damaged epochs."""
        begun = time.perf_counter()
        if self._state.tables:
            cut, _ = self._plan_cut(None, reading=False)
            context = self._context(cut, self._next_epoch(), None, suppress_output=True)
            preload_runs(self._engine.spark, context, self._start.plan)
        loaded = time.perf_counter()
        for commit in self._start.plan.pending_commits:
            self._publisher.publish(commit)
        published = time.perf_counter()
        for replay in self._start.plan.replays:
            self._replay(replay)
        done = time.perf_counter()
        return {
            "restore_ms": (loaded - begun) * 1000,
            "publish_ms": (published - loaded) * 1000,
            "replay_ms": (done - published) * 1000,
        }

    def _replay(self, replay: EpochReplay) -> None:
        """Rebuild the state after a damaged epoch: same cuts, same watermarks, no output."""
        for cut in replay.cut.batches:
            self._run_batch(cut, barrier=None, suppress_output=True)
        self._tracker.observed.update(replay.cut.source_watermarks)
        self._tracker.reached = max(self._tracker.reached, replay.cut.watermark)
        self._emitted = replay.cut.emitted_watermark
        self._ledger.recorded = replay.epoch
        self._ledger.current = Segment()

    # ---- messages ----------------------------------------------------------------------------

    def _take_messages(self, wait_seconds: float) -> bool:
        """Handle everything that has arrived; wait for the first up to `wait_seconds`."""
        taken = False
        while True:
            try:
                message = self._link.inbox.get(timeout=0 if taken else max(wait_seconds, 0.0005))
            except queue.Empty:
                return taken
            taken = True
            self._handle(message)

    def _handle(self, message: ControllerMessage | LinkLost) -> None:
        if isinstance(message, LinkLost):
            # Whoever takes the job up next starts a new generation: this one is over.
            self._stopping = True
        elif message.generation != self._start.generation:
            return
        elif isinstance(message, Barrier):
            self._take_barrier(message)
        elif isinstance(message, Commit):
            self._ledger.record(message.epoch)
        elif isinstance(message, Stop):
            self._stopping = True

    def _take_barrier(self, barrier: Barrier) -> None:
        """Cut every attempt once. One that is heard again is acknowledged in the same words.

        A second cut under the same attempt would mix two states in one checkpoint, and a late
        barrier of an earlier attempt would take the segment away from the one in flight.
        """
        heard = (barrier.epoch, barrier.attempt)
        waiting = self._barrier
        if heard == self._acknowledged:
            for message in self._acknowledgement:
                self._link.send(message)
        elif heard > self._acknowledged and (
            waiting is None or heard > (waiting.epoch, waiting.attempt)
        ):
            self._barrier = barrier

    def _publish(self, commit: Commit) -> None:
        """Publish beside the running micro-batch; called by the link's own thread."""
        if commit.generation == self._start.generation:
            self._publisher.submit(commit)

    def _published(self, commit: SinkCommit) -> None:
        self._link.send(
            SinkPublished(
                generation=self._start.generation, epoch=commit.epoch, operator=commit.operator
            )
        )

    def _publish_failed(self, error: ErrorInfo) -> None:
        self._link.send(TaskFailed(generation=self._start.generation, error=error))

    # ---- micro-batches -----------------------------------------------------------------------

    def _step(self) -> bool:
        """Run one micro-batch if there is a reason to. Returns whether anything was done."""
        barrier, self._barrier = self._barrier, None
        cut, has_input = self._plan_cut(barrier, reading=self._reading)
        timer = self._state.next_timer()
        due = timer is not None and timer <= cut.watermark
        # What a restored state has open is not known until its operators have run once.
        due = due or (self._batch == 0 and bool(self._state.tables))
        if has_input or due or (barrier is not None and self._has_unflushed()):
            self._run_batch(cut, barrier=barrier, suppress_output=False)
        elif barrier is not None:
            # Nothing is open up to the watermark; barriers without a pause may not hide that.
            self._emitted = max(self._emitted, cut.watermark)
            self._acknowledge(barrier, {})
        else:
            self._emitted = max(self._emitted, cut.watermark)
            self._tell_finished()
            return False
        self._tell_finished()
        return True

    def _plan_cut(self, barrier: Barrier | None, *, reading: bool) -> tuple[BatchCut, bool]:
        """Fix the end of the next micro-batch in every source before anything is read."""
        now = self._now_ms()
        ends, rows, lag, has_input = dict(self._positions), 0, 0, False
        for source in self._sources:
            if source in self._tracker.finished or not reading:
                continue
            start = self._positions[source]
            planned: SourceCut = self._engine.sources[source].plan_cut(start, self._pace.limit, now)
            ends[source] = planned.end
            rows += planned.rows
            lag += planned.lag_rows or 0
            # What is known of the rows before they are read moves the watermark already now: the
            # same micro-batch takes them up and emits what they close.
            if planned.end != start:
                has_input = True
                known = self._engine.known(source, start, planned.end)
                if known is not None:
                    self._tracker.observe(source, known.watermark, now)
            if planned.finished:
                self._tracker.finish(source)
        self._lag_rows = lag
        if barrier is not None and barrier.then_stop:
            self._reading = False
        cut = BatchCut(
            start=dict(self._positions),
            end=ends,
            watermark=self._tracker.current(now),
            emitted_watermark=self._emitted,
            rows=rows,
            now_ms=now,
        )
        return cut, has_input

    def _run_batch(self, cut: BatchCut, *, barrier: Barrier | None, suppress_output: bool) -> None:
        self._batch += 1
        epoch = barrier.epoch if barrier is not None else self._next_epoch()
        request = BatchRequest(self._context(cut, epoch, barrier, suppress_output), cut)
        failpoint("worker.before_batch")
        before, started = self._state, time.perf_counter()
        result = self._engine.run(request, before)
        failpoint("worker.after_batch")
        self._state = result.state
        self._positions = dict(cut.end)
        self._emitted = max(self._emitted, cut.watermark)
        for source, seen in result.observed.items():
            self._tracker.observe(source, seen.watermark, self._now_ms())
        self._ledger.add(cut, result.staged)
        discard_scratch(before, self._state)
        elapsed_ms = (time.perf_counter() - started) * 1000
        self._pace.note(elapsed_ms, behind=bool(self._lag_rows) or cut.rows >= self._pace.limit)
        self._note_progress(result, elapsed_ms)
        if barrier is not None:
            self._acknowledge(barrier, result.reports)

    def _context(
        self, cut: BatchCut, epoch: Epoch, barrier: Barrier | None, suppress_output: bool
    ) -> BatchContext:
        settings = self._start.settings
        return BatchContext(
            job=self._start.job,
            generation=self._start.generation,
            epoch=epoch,
            batch=self._batch,
            parallelism=self._start.parallelism,
            watermark=cut.watermark,
            emitted_watermark=cut.emitted_watermark,
            barrier=barrier is not None,
            suppress_output=suppress_output,
            state_url=settings.state_url,
            scratch_dir=settings.scratch_dir,
            cache_dir=self._cache_dir,
            cache_bytes_max=settings.cache_bytes_max,
            verify_checksums=settings.verify_checksums,
        )

    def _next_epoch(self) -> Epoch:
        last = self._ledger.cut_epoch or self._ledger.recorded
        return Epoch(last + 1)

    def _has_unflushed(self) -> bool:
        """Whether something since the last barrier exists only in scratch."""
        scratch = any(v.scratch for versions in self._state.tables.values() for v in versions)
        return scratch or bool(self._state.buffers)

    def _tell_finished(self) -> None:
        """Say that every source has ended and everything open has been emitted."""
        ended = len(self._tracker.finished) == len(self._sources)
        if ended and self._emitted == WATERMARK_MAX and not self._told_finished:
            self._told_finished = True
            self._link.send(SourcesFinished(generation=self._start.generation))

    def _note_progress(self, result: BatchResult, elapsed_ms: float) -> None:
        self.progress = after_batch(
            self.progress,
            result,
            sinks={o.id for o in self._start.graph.sinks()},
            elapsed_ms=elapsed_ms,
            watermark=self._tracker.reached,
            lag_rows=self._lag_rows,
        )

    # ---- acknowledging -----------------------------------------------------------------------

    def _acknowledge(self, barrier: Barrier, reports: Reports) -> None:
        """Report everything that is durable at this barrier, subtask by subtask."""
        failpoint("worker.before_acks")
        # So that what is shown of a job is never older than its last checkpoint: a short one ends
        # before its worker's next heartbeat.
        self._link.send(Heartbeat(generation=barrier.generation, progress=self.progress))
        segment = self._ledger.close(barrier.epoch)
        generation, epoch, attempt = barrier.generation, barrier.epoch, barrier.attempt
        self._acknowledged, self._acknowledgement = (epoch, attempt), []
        # That the sources have ended is said again with every checkpoint: it may have been lost.
        self._told_finished = False
        for operator in self._start.graph.checkpointed():
            for ack in self._acks(operator, barrier.epoch, segment, reports):
                self._say(
                    SubtaskAcked(generation=generation, epoch=epoch, attempt=attempt, ack=ack)
                )
            failpoint("worker.middle_of_acks")
        cut = EpochCut(
            batches=tuple(segment.cuts),
            watermark=self._tracker.current(self._now_ms()),
            source_watermarks=dict(self._tracker.observed),
            emitted_watermark=self._emitted,
        )
        self._say(EpochCutDone(generation=generation, epoch=epoch, attempt=attempt, cut=cut))

    def _say(self, message: SubtaskAcked | EpochCutDone) -> None:
        self._acknowledgement.append(message)
        self._link.send(message)

    def _acks(
        self, operator: Operator, epoch: Epoch, segment: Segment, reports: Reports
    ) -> list[SubtaskAck]:
        if operator.spec.role == "source":
            position: dict[str, JsonValue] = {
                "position": self._positions[operator.id],
                "finished": operator.id in self._tracker.finished,
            }
            return [SubtaskAck(operator=operator.id, subtask=Subtask(0), globals=position)]
        parallelism = self._start.parallelism
        staged = segment.staged.get(operator.id, [])
        commit: dict[str, JsonValue] = {}
        if operator.spec.role == "sink":
            data, state = self._engine.sinks[operator.id].prepare_commit(
                self._start.job, epoch, staged, self._ledger.sink_states.get(operator.id)
            )
            self._ledger.cut_sink_states[operator.id] = state
            commit = {"commit": data, "state": state}
        acks = []
        for subtask in range(parallelism):
            # A sink may run with more partitions than the job's parallelism: they are folded.
            folded = ((o, s % parallelism) for o, s in reports)
            mine = [
                report
                for place, report in zip(folded, reports.values(), strict=True)
                if place == (operator.id, subtask)
            ]
            versions = self._state.tables.get((operator.id, subtask), ())
            acks.append(
                SubtaskAck(
                    operator=operator.id,
                    subtask=Subtask(subtask),
                    tables=tuple(state_from_version(v) for v in versions),
                    globals=commit if subtask == 0 else {},
                    staged=tuple(f for f in staged if f.subtask % parallelism == subtask),
                    timings=_timings([r.timings for r in mine]),
                    new_objects=sum(r.new_objects for r in mine),
                    new_bytes=sum(r.new_bytes for r in mine),
                )
            )
        return acks


def _timings(parts: list[dict[str, float]]) -> SubtaskTimings:
    def longest(name: str) -> float:
        return max((p.get(name, 0.0) for p in parts), default=0.0)

    return SubtaskTimings(
        alignment_ms=longest("alignment_ms"),
        snapshot_ms=longest("snapshot_ms"),
        upload_ms=longest("upload_ms"),
    )
