"""The edge of a worker: takes facts in, has the rules decide, and performs what they say.

Facts come from four threads: the link's (messages), the publisher's, the heartbeat's (a lost link)
and the one that calls `run`, which is the engine's: everything that needs Spark is done there. Each
fact is stepped at once by whoever brings it, so a commit never waits for a running micro-batch; one
that comes while another is being stepped is left to that thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from headgate.connectors.base import FencedSink
from headgate.core.errors import ErrorInfo, error_info
from headgate.core.failpoints import failpoint
from headgate.core.messages import Progress, Restored, Start, TaskFailed, WorkerMessage
from headgate.engine.batch.context import BatchContext, BatchRequest, PipelineState
from headgate.engine.batch.microbatch import Engine
from headgate.engine.batch.restore import preload_runs, restored_state
from headgate.engine.worker.link import Arrival, Link
from headgate.engine.worker.outcome import batch_done, planned_cut
from headgate.engine.worker.publisher import Publisher, StagedReader
from headgate.engine.worker.replays import with_positions
from headgate.engine.worker.rules.actions import (
    Acknowledge,
    Action,
    CheckTargets,
    End,
    LoadState,
    PlanCut,
    Publish,
    RunBatch,
    Send,
    ShowPositions,
    Wait,
    Work,
)
from headgate.engine.worker.rules.facts import (
    BatchDone,
    Begun,
    CutPlanned,
    Fact,
    Heard,
    LinkLost,
    StateLoaded,
    TargetsChecked,
    Tick,
    WorkFailed,
)
from headgate.engine.worker.rules.state import first_positions, first_state
from headgate.engine.worker.rules.step import step
from headgate.engine.worker.scratch import ScratchSpace


class WorkerLoop:
    """One generation of one job, from `Start` to its end."""

    def __init__(
        self,
        start: Start,
        engine: Engine,
        link: Link,
        now_ms: Callable[[], int],
        scratch: ScratchSpace,
        cache_dir: str | None,
        explain: Callable[[Exception], ErrorInfo] = error_info,
        before_batch: Callable[[], None] | None = None,
    ) -> None:
        positions = first_positions(
            start.plan, {name: source.initial_position for name, source in engine.sources.items()}
        )
        start = replace(start, plan=with_positions(start.plan, engine.sources, positions))
        self._start = start
        self._engine = engine
        self._link = link
        self._now_ms = now_ms
        self._scratch = scratch
        self._cache_dir = cache_dir
        self._explain = explain
        self._before_batch = before_batch
        self._state = first_state(
            start,
            positions,
            {operator: sink.prepare_commit for operator, sink in engine.sinks.items()},
        )
        # The version of the tables that the next micro-batch starts from.
        self._tables: PipelineState = restored_state(start.plan)
        staged = StagedReader(start.settings.state_url, start.job)
        self._publisher = Publisher(
            start.job, engine.sources, engine.sinks, staged, self._tell, explain, self._crashed
        )
        # Guards what the threads share, and tells the engine's thread of a change in it.
        self._changed = threading.Condition()
        self._facts: deque[Fact] = deque()
        self._stepping = False
        self._work: deque[Work] = deque()
        self._wake_at: float | None = None
        self._batch_began: float | None = None
        self._over = False
        self._failure: ErrorInfo | None = None
        self._crash: BaseException | None = None

    @property
    def progress(self) -> Progress:
        return self._state.progress

    @property
    def batch_running_ms(self) -> float:
        """How long the micro-batch has run that runs now; asked by other threads."""
        began = self._batch_began
        return 0.0 if began is None else (time.monotonic() - began) * 1000

    def run(self) -> ErrorInfo | None:
        """Run until the rules say that it is over; return why it failed, if it did.

        The controller has been told of a failure then.
        """
        self._publisher.start()
        try:
            self._link.inbox.listen(self._hear)
            self._tell(Begun())
            while (fact := self._next_fact()) is not None:
                self._tell(fact)
        finally:
            self._publisher.close()
        return self._failure

    def _next_fact(self) -> Fact | None:
        """Do the engine's work, or wait as long as the rules said; None = it is over."""
        with self._changed:
            while not (self._crash or self._over or self._work):
                left = None if self._wake_at is None else self._wake_at - time.monotonic()
                if left is not None and left <= 0:
                    self._wake_at = None
                    return Tick()
                self._changed.wait(left)
            if self._crash is not None:
                raise self._crash
            if self._over:
                return None
            self._wake_at = None
            work = self._work.popleft()
        try:
            return self._do(work)
        except Exception as error:  # noqa: BLE001 - whatever it was, the rules say what follows
            return WorkFailed(self._explain(error))

    # ---- facts -------------------------------------------------------------------------------

    def _hear(self, arrival: Arrival) -> None:
        self._tell(arrival if isinstance(arrival, LinkLost) else Heard(arrival))

    def _tell(self, fact: Fact) -> None:
        """Step a fact, and those that come meanwhile. Called by any thread."""
        with self._changed:
            self._facts.append(fact)
            if self._stepping:
                return
            self._stepping = True
        try:
            while (following := self._take_fact()) is not None:
                decided = step(self._state, following, self._now_ms())
                self._state = decided.state
                for action in decided.actions:
                    self._perform(action)
        except BaseException as error:  # noqa: BLE001 - a defect: `run` raises it, nothing goes on
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        with self._changed:
            self._crash = error
            self._changed.notify_all()

    def _take_fact(self) -> Fact | None:
        with self._changed:
            if self._facts:
                return self._facts.popleft()
            self._stepping = False
            return None

    # ---- actions -----------------------------------------------------------------------------

    def _perform(self, action: Action) -> None:
        """Do what takes no time; leave the engine's work to its thread, publishes to theirs."""
        match action:
            case Send(message=message):
                self._send(message)
            case Acknowledge():
                failpoint("worker.before_acks")
                for acks in action.operators:
                    for ack in acks:
                        self._link.send(ack)
                    failpoint("worker.middle_of_acks")
                self._link.send(action.cut)
            case Publish(commit=commit):
                self._publisher.submit(commit)
            case ShowPositions(positions=positions):
                self._publisher.show(positions)
            case Wait(ms=ms):
                with self._changed:
                    self._wake_at = time.monotonic() + ms / 1000
                    self._changed.notify_all()
            case End():
                with self._changed:
                    self._over = True
                    self._changed.notify_all()
            case CheckTargets() | LoadState() | PlanCut() | RunBatch():
                with self._changed:
                    self._work.append(action)
                    self._changed.notify_all()
            case _:
                assert_never(action)

    def _send(self, message: WorkerMessage) -> None:
        if isinstance(message, Restored):
            failpoint("worker.after_restore")
        if isinstance(message, TaskFailed):
            self._failure = message.error
        self._link.send(message)

    # ---- the engine's work -------------------------------------------------------------------

    def _do(self, work: Work) -> Fact:
        match work:
            case CheckTargets(resuming=resuming):
                for operator, goes_on in resuming.items():
                    sink = self._engine.sinks[operator]
                    if isinstance(sink, FencedSink):
                        sink.set_generation(self._start.generation)
                    sink.check_target(self._start.job, resuming=goes_on)
                return TargetsChecked()
            case LoadState():
                load = RunBatch(0, work.cut, work.epoch, suppress_output=True)
                context, plan = self._context(load), self._start.plan
                homes = preload_runs(self._engine.spark, context, plan)
                self._tables = replace(self._tables, homes=homes)
                return StateLoaded()
            case PlanCut():
                return self._plan_cut(work)
            case RunBatch():
                if self._before_batch is not None:
                    self._before_batch()
                return self._run_batch(work)
            case _:
                assert_never(work)

    def _plan_cut(self, work: PlanCut) -> CutPlanned:
        planned = {}
        for source, position in work.positions.items():
            opened = self._engine.sources[source]
            cut = opened.plan_cut(position, work.rows_max, work.now_ms)
            moved = cut.end != position
            known = self._engine.known(source, position, cut.end) if moved else None
            planned[source] = planned_cut(cut, known)
        return CutPlanned(planned)

    def _run_batch(self, work: RunBatch) -> BatchDone:
        failpoint("worker.before_batch")
        before, started = self._tables, time.perf_counter()
        self._batch_began = time.monotonic()
        try:
            result = self._engine.run(BatchRequest(self._context(work), work.cut), before)
        finally:
            self._batch_began = None
        failpoint("worker.after_batch")
        self._tables = result.state
        self._scratch.passed_batch(before, result.state, barrier=work.barrier)
        return batch_done(result, (time.perf_counter() - started) * 1000)

    def _context(self, work: RunBatch) -> BatchContext:
        settings = self._start.settings
        return BatchContext(
            job=self._start.job,
            generation=self._start.generation,
            epoch=work.epoch,
            batch=work.batch,
            parallelism=self._start.parallelism,
            watermark=work.cut.watermark,
            emitted_watermark=work.cut.emitted_watermark,
            barrier=work.barrier,
            suppress_output=work.suppress_output,
            state_url=settings.state_url,
            scratch_dir=self._scratch.folder,
            cache_dir=self._cache_dir,
            cache_bytes_max=settings.cache_bytes_max,
            verify_checksums=settings.verify_checksums,
        )
