"""The thread in which sinks publish, beside the running micro-batches, and in which sources show
how far the job is. What, and when, is decided by the rules.

Repeating a publish is harmless: the target itself knows (job, sink, epoch).
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate.connectors.base import Sink, Source, WatchedSource
from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.errors import CheckpointInvalid, ErrorInfo, ExternalError
from headgate.core.failpoints import failpoint
from headgate.core.ids import JobId, OperatorId
from headgate.core.model import JsonValue
from headgate.engine.task.places import job_store
from headgate.engine.worker.rules.facts import Published, PublishFailed

log = logging.getLogger("headgate.worker")

Positions = Mapping[OperatorId, JsonValue]


@dataclass(frozen=True)
class StagedReader:
    """Reads staged files of a job. Pickled into the tasks of sinks that publish there."""

    state_url: str
    job: JobId

    def __call__(self, staged: StagedFile) -> bytes:
        data = job_store(self.state_url, self.job).get(staged.path)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != staged.checksum:
            raise CheckpointInvalid(
                f"staged output {staged.path} does not match its checksum: it was changed after "
                "the checkpoint. `headgate doctor` shows what can be rebuilt.",
                code="corrupt",
            )
        return data


class Publisher:
    """Publishes what it is given, one after the other, and tells how each went."""

    def __init__(
        self,
        job: JobId,
        sources: Mapping[OperatorId, Source],
        sinks: Mapping[OperatorId, Sink],
        read_staged: Callable[[StagedFile], bytes],
        tell: Callable[[Published | PublishFailed], None],
        explain: Callable[[Exception], ErrorInfo],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._job = job
        self._sources = sources
        self._sinks = sinks
        self._read_staged = read_staged
        self._tell = tell
        self._explain = explain
        self._crashed = crashed
        self._work: queue.Queue[SinkCommit | Positions | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, commit: SinkCommit) -> None:
        self._work.put(commit)

    def show(self, positions: Positions) -> None:
        self._work.put(positions)

    def close(self) -> None:
        """Finish what was submitted, then end."""
        self._work.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._work_off()
        except BaseException as error:  # noqa: BLE001 - the loop raises it, nothing goes on
            self._crashed(error)

    def _work_off(self) -> None:
        while (work := self._work.get()) is not None:
            if isinstance(work, SinkCommit):
                self._tell(self._publish(work))
            else:
                self._show(work)

    def _show(self, positions: Positions) -> None:
        for operator, position in positions.items():
            source = self._sources[operator]
            if not isinstance(source, WatchedSource):
                continue
            try:
                source.checkpointed(position)
            except ExternalError as error:
                # Nothing depends on it, and the next checkpoint shows its own.
                log.warning("cannot show how far %s is: %s", operator, error.message)

    def _publish(self, commit: SinkCommit) -> Published | PublishFailed:
        try:
            failpoint("worker.before_publish")
            sink = self._sinks[commit.operator]
            sink.publish(self._job, commit.epoch, commit.staged, commit.commit, self._read_staged)
            failpoint("worker.after_publish")
        except Exception as error:  # noqa: BLE001 - the thread's boundary: told to the rules
            return PublishFailed(commit, self._explain(error))
        return Published(commit)
