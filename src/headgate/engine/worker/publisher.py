"""Phase two of a sink: publish what a recorded checkpoint names, beside the running micro-batches.

Only ever called for an epoch whose record exists. Repeating a publish is harmless: the target
itself knows (job, sink, epoch).
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable

from headgate.connectors.base import Sink
from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.errors import CheckpointInvalid, ErrorInfo, error_info
from headgate.core.failpoints import failpoint
from headgate.core.ids import JobId, OperatorId
from headgate.core.messages import Commit
from headgate.core.ports import ObjectStore


class Publisher:
    """Publishes commits one after the other, in a thread of its own."""

    def __init__(
        self,
        job: JobId,
        sinks: dict[OperatorId, Sink],
        store: ObjectStore,
        on_published: Callable[[SinkCommit], None],
        on_failed: Callable[[ErrorInfo], None],
    ) -> None:
        self._job = job
        self._sinks = sinks
        self._store = store
        self._on_published = on_published
        self._on_failed = on_failed
        self._commits: queue.Queue[Commit | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, commit: Commit) -> None:
        self._commits.put(commit)

    def close(self) -> None:
        """Finish what was submitted, then end."""
        self._commits.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def publish(self, commit: SinkCommit) -> None:
        """Make one sink's part of one epoch visible, and say so."""
        failpoint("worker.before_publish")
        sink = self._sinks[commit.operator]
        sink.publish(self._job, commit.epoch, commit.staged, commit.commit, self._read_staged)
        failpoint("worker.after_publish")
        self._on_published(commit)

    def _read_staged(self, staged: StagedFile) -> bytes:
        data = self._store.get(staged.path)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != staged.checksum:
            raise CheckpointInvalid(
                f"staged output {staged.path} does not match its checksum: it was changed after "
                "the checkpoint. `headgate doctor` shows what can be rebuilt.",
                code="corrupt",
            )
        return data

    def _run(self) -> None:
        while (commit := self._commits.get()) is not None:
            try:
                for sink_commit in commit.sinks:
                    self.publish(sink_commit)
            except Exception as error:  # noqa: BLE001 - the thread's boundary: told to the controller
                self._on_failed(error_info(error))
                return
