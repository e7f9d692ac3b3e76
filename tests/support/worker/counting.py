"""A worker whose sources count rows: what it hears, and what it says to it."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.checkpoint import (
    BatchCut,
    EpochCut,
    SinkCommit,
    SubtaskAck,
    SubtaskTimings,
    subtasks_owed,
)
from headgate.core.errors import ErrorInfo, RetryHint
from headgate.core.failpoints import failpoint
from headgate.core.graph import Operator
from headgate.core.ids import Generation, Subtask
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
    WorkerMessage,
    WorkerStopped,
)
from headgate.core.model import JsonValue
from tests.support.worker.targets import Target
from tests.support.worker.traits import Traits, traits_of

TIMINGS = SubtaskTimings(alignment_ms=1.0, snapshot_ms=2.0, upload_ms=3.0)


class CountingWorker:
    """Answers at once, and does nothing by itself: whoever owns it calls `go_on` now and then.

    Without `traits` the names of the source tables say how it behaves. Failpoints of a worker work
    as in the real one.
    """

    def __init__(
        self,
        generation: Generation,
        say: Callable[[WorkerMessage], None],
        target: Target,
        traits: Traits | None = None,
    ) -> None:
        self.generation = generation
        self.has_ended = False
        self._say = say
        self._target = target
        self._given = traits
        self._traits = Traits()
        self._start: Start | None = None
        self._rows = self._last_cut = self._batches = 0
        self._is_reading = True
        self._said_finished = False

    def hear(self, message: ControllerMessage) -> None:
        match message:
            case Start():
                self._restore(message)
            case Barrier():
                self._is_reading = self._is_reading and not message.then_stop
                if not self._traits.mute:
                    self._acknowledge(message)
            case Commit():
                self._commit(message)
            case Stop():
                self.has_ended = True
                self._say(WorkerStopped(generation=self.generation))

    def go_on(self) -> None:
        """Run one micro-batch, if it may, and say how far it is."""
        if self._start is None or self.has_ended:
            return
        traits = self._traits
        if self._is_reading and not traits.stuck:
            self._batches += 1
            ahead = self._rows + traits.rows_per_step
            self._rows = ahead if traits.rows is None else min(traits.rows, ahead)
        progress = Progress(
            batches=self._batches,
            rows_in=self._rows,
            rows_out=self._rows,
            lag_rows=traits.lag_rows,
        )
        self._say(Heartbeat(generation=self.generation, progress=progress))
        if self._is_reading and self._rows == traits.rows and not self._said_finished:
            self._said_finished = True
            self._say(SourcesFinished(generation=self.generation))

    def _restore(self, start: Start) -> None:
        self._start = start
        self._traits = traits_of(start.graph) if self._given is None else self._given
        for source in start.graph.sources():
            position = start.plan.globals.get(source.id, {}).get("position", 0)
            assert isinstance(position, int)
            self._rows = max(self._rows, position)
            for replay in start.plan.replays:
                end = replay.cut.batches[-1].end[source.id]
                assert isinstance(end, int)
                self._rows = max(self._rows, end)
        self._last_cut = self._rows
        for commit in start.plan.pending_commits:
            self._publish(start, commit)
        failpoint("worker.after_restore")
        self._say(Restored(generation=self.generation, timings={"restore_ms": 1.0}))

    def _acknowledge(self, barrier: Barrier) -> None:
        assert self._start is not None
        failpoint("worker.before_acks")
        start, self._last_cut = self._last_cut, self._rows
        for operator in self._start.graph.checkpointed():
            for subtask in range(subtasks_owed(operator.spec.role, self._start.parallelism)):
                ack = SubtaskAck(
                    operator=operator.id,
                    subtask=Subtask(subtask),
                    globals=self._globals(operator, subtask, start),
                    timings=TIMINGS,
                    new_objects=1,
                    new_bytes=100,
                )
                self._say(
                    SubtaskAcked(
                        generation=self.generation,
                        epoch=barrier.epoch,
                        attempt=barrier.attempt,
                        ack=ack,
                    )
                )
                failpoint("worker.middle_of_acks")
        sources = self._start.graph.sources()
        batch = BatchCut(
            start={source.id: start for source in sources},
            end={source.id: self._rows for source in sources},
            watermark=0,
            rows=self._rows - start,
        )
        self._say(
            EpochCutDone(
                generation=self.generation,
                epoch=barrier.epoch,
                attempt=barrier.attempt,
                cut=EpochCut(batches=(batch,), watermark=0),
            )
        )

    def _globals(self, operator: Operator, subtask: int, start: int) -> dict[str, JsonValue]:
        if operator.spec.kind == "source":
            return {"position": self._rows}
        if operator.spec.kind == "sink" and subtask == 0:
            return {"commit": [start, self._rows]}
        return {}

    def _commit(self, message: Commit) -> None:
        assert self._start is not None
        # A worker reads on while its output is being published.
        self.go_on()
        failpoint("worker.before_publish")
        for commit in message.sinks:
            self._publish(self._start, commit)
        failpoint("worker.after_publish")
        for commit in message.sinks:
            self._say(
                SinkPublished(
                    generation=self.generation, epoch=message.epoch, operator=commit.operator
                )
            )
        if self._traits.broken:
            self.has_ended = True
            error = ErrorInfo(
                message="the disk is on fire", retry=RetryHint.WITH_BACKOFF, code="fire"
            )
            self._say(TaskFailed(generation=self.generation, error=error))

    def _publish(self, start: Start, commit: SinkCommit) -> None:
        self._target.publish(start.graph.operator(commit.operator), commit)
