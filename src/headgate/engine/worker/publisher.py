"""The thread in which sinks publish, beside the running micro-batches. What, and when, is decided
by the rules.

Repeating a publish is harmless: the target itself knows (job, sink, epoch).
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Mapping

from headgate.connectors.base import Sink
from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.errors import CheckpointInvalid, ErrorInfo
from headgate.core.failpoints import failpoint
from headgate.core.ids import JobId, OperatorId
from headgate.core.ports import ObjectStore
from headgate.engine.worker.rules.facts import Published, PublishFailed


class Publisher:
    """Publishes what it is given, one after the other, and tells how each went."""

    def __init__(
        self,
        job: JobId,
        sinks: Mapping[OperatorId, Sink],
        store: ObjectStore,
        tell: Callable[[Published | PublishFailed], None],
        explain: Callable[[Exception], ErrorInfo],
    ) -> None:
        self._job = job
        self._sinks = sinks
        self._store = store
        self._tell = tell
        self._explain = explain
        self._commits: queue.Queue[SinkCommit | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, commit: SinkCommit) -> None:
        self._commits.put(commit)

    def close(self) -> None:
        """Finish what was submitted, then end."""
        self._commits.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (commit := self._commits.get()) is not None:
            self._tell(self._publish(commit))

    def _publish(self, commit: SinkCommit) -> Published | PublishFailed:
        try:
            failpoint("worker.before_publish")
            sink = self._sinks[commit.operator]
            sink.publish(self._job, commit.epoch, commit.staged, commit.commit, self._read_staged)
            failpoint("worker.after_publish")
        except Exception as error:  # noqa: BLE001 - the thread's boundary: told to the rules
            return PublishFailed(commit, self._explain(error))
        return Published(commit)

    def _read_staged(self, staged: StagedFile) -> bytes:
        data = self._store.get(staged.path)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != staged.checksum:
            raise CheckpointInvalid(
                f"staged output {staged.path} does not match its checksum: it was changed after "
                "the checkpoint. `headgate doctor` shows what can be rebuilt.",
                code="corrupt",
            )
        return data
