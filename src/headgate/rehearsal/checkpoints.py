"""Stands at the controller's end of the link: records checkpoints and says what is published.

The worker's threads bring the messages: a checkpoint is recorded by the one that runs the pipeline,
what is published is told by the one that publishes.
"""

from __future__ import annotations

import threading

from headgate.core.checkpoint import CheckpointRef, SinkCommit
from headgate.core.errors import InternalError
from headgate.core.ids import Epoch, OperatorId
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
from headgate.core.ports import ObjectStore
from headgate.engine.worker.link import Inbox
from headgate.rehearsal.conduct import Conduct
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.protocol.writes import (
    AlreadyRecorded,
    Recorded,
    write_checkpoint,
    write_committed,
)


class Checkpoints:
    """The link of a worker to itself. One checkpoint is in flight at most."""

    def __init__(
        self, store: ObjectStore, start: Start, newest: CheckpointRef | None, conduct: Conduct
    ) -> None:
        self.inbox = Inbox()
        # All rows have been read, and everything open has been emitted.
        self.finished = False
        self.failures: list[TaskFailed] = []
        # The newest epoch that is published.
        self.recorded = newest.epoch if newest else Epoch(0)
        self._store = store
        self._start = start
        self._conduct = conduct
        self._parent = start.plan.checkpoint
        self._replayed = tuple(r.epoch for r in start.plan.replays)
        self._newest = newest
        # Guards what several threads may ask for: what is in flight, and what follows it.
        self._lock = threading.Lock()
        # Told when what was recorded is published, or nothing is published any more.
        self._settled = threading.Condition(self._lock)
        self._is_publishing = False
        self._stopped = False
        self._in_flight: Epoch | None = None
        self._then_stop = False
        self._then_stop_next = False
        self._once_more = False
        self._acks: dict[tuple[OperatorId, int], SubtaskAcked] = {}
        self._publishing: set[OperatorId] = set()

    @property
    def in_flight(self) -> bool:
        return self._in_flight is not None

    def trigger(self, *, then_stop: bool = False, after_this_one: bool = False) -> None:
        """Start a checkpoint. If one is in flight, that one will do, or one more follows it."""
        with self._lock:
            if self._in_flight is not None:
                # Micro-batches may have run since its cut: a last checkpoint is one of its own.
                last = then_stop and not self._then_stop
                self._once_more = self._once_more or after_this_one or last
                self._then_stop_next = self._then_stop_next or last
                return
            self._then_stop = self._then_stop or self._then_stop_next or then_stop
            self._in_flight = Epoch(self.recorded + 1)
            self._acks = {}
            barrier = Barrier(
                generation=self._start.generation,
                epoch=self._in_flight,
                attempt=1,
                then_stop=self._then_stop,
            )
        self.inbox.receive(barrier)

    def stop(self) -> None:
        """End after the work in hand, without a checkpoint. Any thread may ask for it."""
        with self._settled:
            self._stopped = True
            self._settled.notify_all()
        self.inbox.receive(Stop(generation=self._start.generation))

    def wait_until_published(self, seconds_max: float) -> None:
        """Wait until what was cut is published, the run ends, or the time is over.

        A checkpoint that still waits for its cut is not waited for: the caller may be the one who
        makes it.
        """
        with self._settled:
            self._settled.wait_for(lambda: self._stopped or not self._is_publishing, seconds_max)

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
            self.stop()

    def _record(self, message: EpochCutDone) -> None:
        graph, parallelism = self._start.graph, self._start.parallelism
        result = write_checkpoint(
            self._store,
            CheckpointFacts(
                job=self._start.job,
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
        if not isinstance(result, Recorded | AlreadyRecorded):
            raise InternalError(f"epoch {message.epoch} was not recorded: {result}")
        self._parent = self._newest = CheckpointRef(
            generation=self._start.generation, epoch=message.epoch
        )
        self._replayed = ()
        sinks = tuple(self._sink_commit(o.id, message.epoch) for o in graph.sinks())
        self._publishing = {s.operator for s in sinks}
        with self._lock:
            self._is_publishing = True
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
        write_committed(self._store, self._start.job, ref)
        with self._lock:
            self.recorded, self._in_flight = message.epoch, None
            once_more, self._once_more = self._once_more, False
            self._is_publishing = False
            self._settled.notify_all()
        self._conduct.committed(message.epoch)
        if self._then_stop:
            self.stop()
        elif once_more:
            self.trigger()
