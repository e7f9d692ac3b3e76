"""Named failpoints: places where a test, or a curious person, can break the system on purpose.

`HEADGATE_FAILPOINTS="checkpoint.after_manifest=kill@2;worker.before_batch=delay:500"`: at the
second passage the process kills itself with SIGKILL. Actions: `kill`, `error`,
`delay:MILLISECONDS`; `@n` = only at the n-th passage (default: the first), `@*` = at every one.
A point must be declared here to be used, so that the list is complete by construction.

`HEADGATE_FAILPOINTS_DIR=FOLDER` arms while everything runs, and for whichever process comes by: a
file `FOLDER/checkpoint.after_manifest` that contains `kill` is taken by the first one to pass there
(the file becomes `checkpoint.after_manifest.reached`, with the process id in its second line), so
it happens once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.errors import InternalError, UserError

ENVIRONMENT_VARIABLE = "HEADGATE_FAILPOINTS"
FOLDER_VARIABLE = "HEADGATE_FAILPOINTS_DIR"
# What the name of a file in the folder ends with when its point was passed.
REACHED = ".reached"

FAILPOINTS: dict[str, str] = {
    "checkpoint.before_metadata": "all subtasks acknowledged; nothing recorded yet",
    "checkpoint.after_metadata": "operator metadata written; no manifest",
    "checkpoint.after_manifest": "manifest written; no epoch record: the checkpoint is unclaimed",
    "checkpoint.after_fence_check": "fence re-read; epoch record not yet written",
    "checkpoint.after_record": "epoch record written; nothing published",
    "checkpoint.before_marker": "every sink has published; no committed marker",
    "checkpoint.after_marker": "committed marker written; the controller has not yet noted it",
    "recovery.after_identify": "recovery: newest usable epoch record found",
    "recovery.after_prepare": "recovery: loading plan built, nothing written",
    "recovery.after_fence": "recovery: new generation's fence written, no worker started",
    "cleanup.before_delete": "retention: decided what to delete, nothing deleted",
    "cleanup.middle": "retention: some of the garbage is deleted",
    "controller.after_persist": "controller: new state persisted, its actions not performed",
    "worker.before_register": "worker: process started, not registered",
    "worker.after_restore": "worker: state restored, controller not told",
    "worker.before_batch": "worker: a micro-batch is about to run",
    "worker.after_batch": "worker: a micro-batch has run, its result is not yet taken over",
    "worker.before_acks": "worker: barrier micro-batch done, nothing acknowledged",
    "worker.middle_of_acks": "worker: some subtasks acknowledged",
    "worker.before_publish": "worker: told to publish, nothing published",
    "worker.middle_of_publish": "worker: some of the epoch's files are visible in the target",
    "worker.after_publish": "worker: epoch published, controller not told",
    "task.before_write": "Spark task: operator computed, its run not yet written",
    "task.after_write": "Spark task: run written, task not yet reported",
    "sink_task.before_write": "Spark task: rows for a sink at hand, nothing buffered or staged",
    "sink_task.after_write": "Spark task: rows for a sink staged, task not yet reported",
}


@dataclass
class _Armed:
    action: str
    delay_ms: int
    at: int | None
    hits: int = 0

    @classmethod
    def parse(cls, name: str, text: str) -> _Armed:
        """Parse what should happen at a point: `kill`, `error`, `delay:500`, `kill@2`, ..."""
        if name not in FAILPOINTS:
            raise UserError(
                f"unknown failpoint '{name}': `headgate failpoints` lists them",
                code="failpoint",
            )
        action, _, at = text.partition("@")
        action, _, delay = action.partition(":")
        if action not in ("kill", "error", "delay") or (action == "delay" and not delay.isdigit()):
            raise UserError(
                f"failpoint '{name}={text}': the action must be kill, error or delay:MILLISECONDS",
                code="failpoint",
            )
        return cls(action, int(delay or 0), None if at == "*" else int(at or 1))

    def passed(self, name: str) -> None:
        self.hits += 1
        if self.at is not None and self.hits != self.at:
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "delay":
            time.sleep(self.delay_ms / 1000)
        else:
            raise InternalError(f"failpoint {name}", code="failpoint")


@dataclass
class Failpoints:
    """The failpoints armed in one process, and the folder where others may be armed."""

    armed: dict[str, _Armed] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def parse(cls, text: str, folder: Path | None = None) -> Failpoints:
        armed: dict[str, _Armed] = {}
        for item in filter(None, (part.strip() for part in text.split(";"))):
            name, _, rest = item.partition("=")
            armed[name] = _Armed.parse(name, rest)
        return cls(armed, folder)

    def hit(self, name: str) -> None:
        """Pass the failpoint: does nothing unless it is armed."""
        assert name in FAILPOINTS, name
        point = self.armed.get(name)
        if point is not None:
            point.passed(name)
        if self.folder is not None:
            self._hit_in_folder(name, self.folder)

    def _hit_in_folder(self, name: str, folder: Path) -> None:
        reached = folder / f"{name}{REACHED}"
        try:
            # Of all processes that pass here, one gets the file.
            (folder / name).rename(reached)
        except FileNotFoundError:
            return
        text = reached.read_text().strip()
        reached.write_text(f"{text}\n{os.getpid()}\n")
        _Armed.parse(name, text).passed(name)


_process: Failpoints | None = None
_observer: Callable[[str], None] | None = None


@contextmanager
def observed(observer: Callable[[str], None]) -> Iterator[None]:
    """Tell of every failpoint that this process passes, in the thread that does; it may raise."""
    global _observer
    before, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = before


def failpoint(name: str) -> None:
    """Pass a failpoint of this process, as armed by its environment."""
    global _process
    if _process is None:
        folder = os.environ.get(FOLDER_VARIABLE)
        _process = Failpoints.parse(
            os.environ.get(ENVIRONMENT_VARIABLE, ""), Path(folder) if folder else None
        )
    _process.hit(name)
    if _observer is not None:
        _observer(name)
