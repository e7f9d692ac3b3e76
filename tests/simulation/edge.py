"""The edge of a simulated worker: the real rules of `engine/worker/rules`, with fibers around them.

As in `engine/worker/loop.py`, each fact is stepped as it comes, also while a micro-batch runs; the
engine's work is done by the worker's main fiber, publishes by a fiber of their own. Nothing is
decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from headgate.core.checkpoint import SinkCommit
from headgate.core.errors import HeadgateError, error_info
from headgate.core.messages import Commit, SinkPublished, Start, TaskFailed
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
    Begun,
    Fact,
    Heard,
    LinkLost,
    Published,
    PublishFailed,
    StateLoaded,
    TargetsChecked,
    Tick,
    WorkFailed,
)
from headgate.engine.worker.rules.state import Over, WorkerState, first_positions, first_state
from headgate.engine.worker.rules.step import step
from tests.simulation.engine import Engine
from tests.simulation.fibers import Fiber
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.worker import Arrival, Worker


class Edge:
    """One generation, from `Start` to its end."""

    def __init__(self, worker: Worker, start: Start) -> None:
        self._worker = worker
        self._world = worker.world
        self.engine = Engine(worker, start)
        workload = self._world.workloads[worker.job]
        self.state: WorkerState = first_state(
            start,
            first_positions(start.plan, {source.id: int for source in workload.sources}),
            {sink: self.engine.prepare_commit(sink) for sink in workload.sinks},
        )
        self._facts: list[Fact] = []
        self._stepping = False
        self._work: list[Work] = []
        self._over = False
        self._failed = False
        self._changed = Signal(worker)
        self._commits: list[SinkCommit] = []
        self._committed = Signal(worker)
        # The fiber that publishes, if it is at work, and who waits for its end.
        self._publishing = False
        self._idle = Signal(worker)

    def run(self) -> int:
        """Run until the rules say that it is over; return the exit code."""
        self._worker.listen(self._hear)
        # Its own fiber is started by the scheduler: one fiber must not run inside another.
        self._worker.after(0, lambda: self._begin_publisher())
        self._tell(Begun())
        while not self._over:
            self._worker.crash_point()
            if self._work:
                self._tell(self._do(self._work.pop(0)))
            elif self._changed.wait():
                continue
            else:
                self._tell(Tick())
        while self._publishing:
            self._idle.wait()
        return 1 if self._failed else 0

    def references(self) -> set[str]:
        """Return the files that the next checkpoint of this generation may name."""
        segments = (self.state.ledger.current, self.state.ledger.cut)
        staged = {
            file.path for segment in segments for files in segment.staged.values() for file in files
        }
        tables = (table for tables in self.state.tables.values() for table in tables)
        runs = {run.path for table in tables for run in table.runs}
        return staged | runs | self.engine.tables.references()

    # ---- facts -------------------------------------------------------------------------------

    def _hear(self, arrival: Arrival) -> None:
        fact = arrival if isinstance(arrival, LinkLost) else Heard(arrival)
        self._worker.after(0, lambda: self._step_in_fiber(fact))

    def _step_in_fiber(self, fact: Fact) -> None:
        self._worker.spawn(lambda: self._tell(fact))

    def _tell(self, fact: Fact) -> None:
        self._facts.append(fact)
        if self._stepping:
            return
        self._stepping = True
        while self._facts:
            following = self._facts.pop(0)
            decided = step(self.state, following, self._worker.now_ms())
            before, self.state = self.state, decided.state
            if self.state.watermark.reached > before.watermark.reached:
                self._note_excuses()
            check_commit(self.state, following, decided.actions)
            for action in decided.actions:
                self._perform(action)
        self._stepping = False

    def _note_excuses(self) -> None:
        """Windows may be emitted without a source only if it truly was idle."""
        watermark = self.state.watermark
        watch = self._world.checks.jobs[self._worker.job]
        for source in watch.workload.sources:
            if source.id in self.engine.idle - watermark.finished:
                so_far = watch.excused.get(source.number, watermark.reached)
                watch.excused[source.number] = max(so_far, watermark.reached)

    # ---- actions -----------------------------------------------------------------------------

    def _perform(self, action: Action) -> None:
        match action:
            case Send(message=message):
                self._failed = self._failed or isinstance(message, TaskFailed)
                self._worker.send(message)
            case Acknowledge():
                self._worker.crash_point()
                for ack in (ack for acks in action.operators for ack in acks):
                    self._worker.send(ack)
                    self._worker.crash_point()
                self._worker.send(action.cut)
            case Publish(commit=commit):
                self._commits.append(commit)
                self._committed.set()
            case ShowPositions():
                pass  # for people to look at
            case Wait(ms=ms):
                self._changed.wake_after(ms)
            case End():
                self._over = True
                self._changed.set()
            case CheckTargets() | LoadState() | PlanCut() | RunBatch():
                self._work.append(action)
                self._changed.set()
            case _:
                assert_never(action)

    def _do(self, work: Work) -> Fact:
        try:
            match work:
                case CheckTargets(resuming=resuming):
                    self.engine.check_targets(resuming)
                    return TargetsChecked()
                case LoadState():
                    self.engine.load()
                    return StateLoaded()
                case PlanCut():
                    return self.engine.plan_cut(work)
                case RunBatch():
                    return self.engine.run_batch(work)
                case _:
                    assert_never(work)
        except HeadgateError as error:
            return WorkFailed(error_info(error))

    # ---- publishing --------------------------------------------------------------------------

    def _begin_publisher(self) -> None:
        self._worker.spawn(self._publish_all)

    def _publish_all(self) -> None:
        while True:
            while not self._commits:
                self._committed.wait()
            commit = self._commits.pop(0)
            self._publishing = True
            try:
                self.engine.publish(commit)
                fact: Fact = Published(commit)
            except HeadgateError as error:
                fact = PublishFailed(commit, error_info(error))
            self._publishing = False
            self._idle.set()
            self._tell(fact)


def check_commit(state: WorkerState, fact: Fact, actions: tuple[Action, ...]) -> None:
    """A commit is never left for later: it is published, waits for an earlier one, or is answered.

    A micro-batch may take minutes, and the controller waits for the answer.
    """
    if not isinstance(fact, Heard) or not isinstance(fact.message, Commit):
        return
    if fact.message.generation != state.start.generation or isinstance(state.phase, Over):
        return
    answered = {
        (action.message.operator, action.message.epoch)
        for action in actions
        if isinstance(action, Send) and isinstance(action.message, SinkPublished)
    }
    queued = {(commit.operator, commit.epoch) for commit in state.publishing.queue}
    for sink in fact.message.sinks:
        if (sink.operator, sink.epoch) not in answered | queued:
            raise Violation("commit_not_heard", f"{sink.operator} of epoch {sink.epoch}")


class Signal:
    """Lets one fiber wait until somebody says that something has changed, or for some time."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._fiber: Fiber | None = None
        self._is_set = False
        self._wake_ms: int | None = None
        self._waits = 0

    def set(self) -> None:
        self._is_set = True
        self._wake()

    def wake_after(self, delay_ms: int) -> None:
        """Let the next wait, or the one that is going on, end at the latest then."""
        self._wake_ms = self._worker.scheduler.now_ms + delay_ms
        self._plan()

    def wait(self) -> bool:
        """Block the fiber; return whether something has changed, and not only time has passed."""
        while not self._is_set:
            wake_ms = self._wake_ms
            if wake_ms is not None and wake_ms <= self._worker.scheduler.now_ms:
                self._wake_ms = None
                return False
            self._fiber = self._worker.wait()
            self._waits += 1
            self._plan()
            self._fiber.suspend()
            self._worker.check_alive()
        self._is_set = False
        self._wake_ms = None
        return True

    def _plan(self) -> None:
        if self._fiber is None or self._wake_ms is None:
            return
        waits, wake_ms = self._waits, self._wake_ms

        def time_out() -> None:
            if self._waits == waits and self._wake_ms == wake_ms:
                self._wake()

        self._worker.after(max(0, wake_ms - self._worker.scheduler.now_ms), time_out)

    def _wake(self) -> None:
        fiber = self._fiber
        if fiber is not None:
            self._fiber = None
            # Through `after`, so that a paused process does not notice.
            self._worker.after(0, lambda: self._worker.wake(fiber))
