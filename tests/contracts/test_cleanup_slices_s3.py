"""How long checkpoints wait for cleanups on S3, at parallelism 64: the controller's own schedule.

Real rules, real effects, a real S3 API. Only the time is made: a request takes 30 ms and everything
else nothing, so what is found does not depend on the machine. `HEADGATE_REAL_TIME=1` lets the proxy
take those 30 ms instead, and the clock be the machine's.
"""

from __future__ import annotations

import os
import statistics
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.controller.applying import Change
from headgate.controller.effects.storage import CLEANUP_STEPS_LEAST
from headgate.controller.rules.events import Event, Tick
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import CheckpointNote, CleanupNote
from headgate.controller.rules.state import next_deadline
from headgate.core.checkpoint import SinkCommit
from headgate.core.ids import Generation
from headgate.core.messages import (
    Barrier,
    ControllerMessage,
    EpochCutDone,
    Start,
    SubtaskAcked,
    WorkerMessage,
)
from headgate.core.ports import ObjectStore
from headgate.state.recovery.backend import NoCheckpoint
from headgate.storage import job_folder, open_store
from tests.support.needed import in_soak
from tests.support.s3 import FaultyProxy, slow
from tests.support.state_world import WINDOW, Writer, make_graph
from tests.support.stores import DictStore
from tests.support.worker.counting import CountingWorker
from tests.support.worker.targets import MemoryTarget
from tests.support.worker.traits import Traits
from tests.unit.controller.loop import Loop
from tests.unit.controller.support import JOB

PARALLELISM = 64
REQUEST_MS = 30
RETAINED = 10
CHECKPOINTS, CLEANUPS = 30, 3
REAL_TIME = bool(os.environ.get("HEADGATE_REAL_TIME"))


@pytest.fixture
def proxy(s3_endpoint: str, s3_environment: None) -> Iterator[FaultyProxy]:
    server = FaultyProxy(s3_endpoint)
    yield server
    server.close()


class StoringWorker(CountingWorker):
    """Writes the runs and the output of all its subtasks at every barrier, past the proxy."""

    def __init__(self, generation: Generation, loop: ScheduleOnS3) -> None:
        super().__init__(generation, loop.queue.append, MemoryTarget(), Traits(rows=None))
        self._memory = DictStore()
        self._direct = loop.direct
        self._writer: Writer | None = None

    def hear(self, message: ControllerMessage) -> None:
        if isinstance(message, Start):
            self._writer = Writer(
                self._memory, message.generation, NoCheckpoint(), parallelism=PARALLELISM
            )
        super().hear(message)

    def go_on(self) -> None:
        """It is heard only when it is asked: time passes by requests alone."""

    def _acknowledge(self, barrier: Barrier) -> None:
        writer = self._writer
        assert writer is not None
        facts = writer.facts(attempt=barrier.attempt)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda file: self._direct.put(*file), self._memory.objects.items()))
        self._memory.objects.clear()
        where = {"generation": self.generation, "epoch": barrier.epoch, "attempt": barrier.attempt}
        said: list[WorkerMessage] = [SubtaskAcked(ack=ack, **where) for ack in facts.acks]  # type: ignore[arg-type]
        for message in [*said, EpochCutDone(cut=facts.cut, **where)]:  # type: ignore[arg-type]
            self._say(message)
        writer.parent = writer.previous = facts.ref
        writer.runs = {a.subtask: a.tables[0].runs for a in facts.acks if a.operator == WINDOW}

    def _publish(self, start: Start, commit: SinkCommit) -> None:
        """Its output goes nowhere."""


class ScheduleOnS3(Loop):
    """A job whose clock goes by the requests that its controller makes."""

    work_ms = 0
    steps_max = 100_000

    def __init__(self, folder: Path, proxy: FaultyProxy, endpoint: str, interval_ms: int) -> None:
        self._proxy = proxy
        # Later than the store's own clock, by which its objects are old or young.
        self._beside_ms = round(time.time() * 1000) + 10**8
        bucket = f"s3://contracts/{uuid.uuid4().hex}"
        self.direct: ObjectStore = job_folder(open_store(f"{bucket}?endpoint={endpoint}"), JOB)
        self.cleanups: list[CleanupNote] = []
        self.checkpoints: list[CheckpointNote] = []
        # Objects in the store whenever a cleanup has come to its end.
        self.left: list[int] = []
        limits = Limits(
            checkpoint_interval_ms=interval_ms,
            retained_checkpoints=RETAINED,
            # As often as with an interval of a second, counted in checkpoints.
            cleanup_interval_ms=min(30_000, 30 * interval_ms),
            heartbeat_timeout_ms=10**9,
        )
        super().__init__(
            str(folder),
            limits=limits,
            parallelism=PARALLELISM,
            graph=make_graph(),
            state_url=f"{bucket}?endpoint={proxy.url}",
        )

    @property
    def now(self) -> int:
        if REAL_TIME:
            return round(time.time() * 1000)
        return self._beside_ms + REQUEST_MS * self._proxy.requests

    @now.setter
    def now(self, value: int) -> None:
        ahead_ms = max(0, value - self.now)
        if REAL_TIME:
            time.sleep(ahead_ms / 1000)
        else:
            self._beside_ms += ahead_ms

    def new_worker(self, generation: Generation) -> CountingWorker:
        return StoringWorker(generation, self)

    def _next_event(self) -> Event:
        if self.queue:
            return self.queue.popleft()
        deadline_ms = next_deadline(self.state)
        assert deadline_ms is not None
        self.now = max(self.now, deadline_ms)
        return Tick()

    def _persist(self, change: Change) -> None:
        super()._persist(change)
        self.checkpoints += [note for note in change.notes if isinstance(note, CheckpointNote)]
        for note in change.notes:
            if isinstance(note, CleanupNote):
                self.cleanups.append(note)
                if note.finished:
                    self.left.append(sum(1 for _ in self.direct.list("")))


@pytest.mark.verify
@pytest.mark.parametrize("interval_ms", [10_000, pytest.param(1_000, marks=in_soak)])
def test_cleanups_keep_up_and_hold_no_checkpoint_up_for_more_than_their_slice(
    proxy: FaultyProxy, s3_endpoint: str, tmp_path: Path, interval_ms: int
) -> None:
    proxy.fault = slow(REQUEST_MS / 1000) if REAL_TIME else proxy.fault
    loop = ScheduleOnS3(tmp_path, proxy, s3_endpoint, interval_ms)
    loop.run(until=lambda loop: len(loop.checkpoints) >= CHECKPOINTS and len(loop.left) >= CLEANUPS)
    waits = sorted(note.held_up_ms / interval_ms for note in loop.cleanups)
    longest = max(note.duration_ms for note in loop.cleanups)
    print(
        f"interval {interval_ms} ms: {len(loop.checkpoints)} checkpoints, {len(loop.cleanups)}"
        f" slices of {longest} ms at most; waits: {sum(w > 0 for w in waits)}, p50"
        f" {statistics.median([w for w in waits if w] or [0]):.3f}, max {waits[-1]:.3f} of the"
        f" interval; objects after each cleanup {loop.left}"
    )
    # A tenth of the interval, or the few steps of a request or two that a slice does at least.
    slice_ms = max(interval_ms / 10, CLEANUP_STEPS_LEAST * 2 * REQUEST_MS)
    if not REAL_TIME:
        assert waits[-1] * interval_ms <= slice_ms
    # The first cleanup came with the first checkpoint; the others leave what is kept, and what came
    # while they ran.
    assert max(loop.left[1:]) <= 1.25 * min(loop.left[1:]), loop.left
