"""Named failpoints: places where a test, or a curious person, can break the system on purpose.

`HEADGATE_FAILPOINTS="checkpoint.after_manifest=kill@2;worker.before_batch=delay:500"`: at the
second passage the process kills itself with SIGKILL. Actions: `kill`, `error`,
`delay:MILLISECONDS`; `@n` = only at the n-th passage (default: the first), `@*` = at every one.
A point must be declared here to be used, so that the list is complete by construction.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field

from headgate.core.errors import InternalError, UserError

ENVIRONMENT_VARIABLE = "HEADGATE_FAILPOINTS"

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
    "task.before_write": "Spark task: operator computed, its run or staged file not yet written",
    "task.after_write": "Spark task: file written, task not yet reported",
}


@dataclass
class _Armed:
    action: str
    delay_ms: int
    at: int | None
    hits: int = 0


@dataclass
class Failpoints:
    """The failpoints armed in one process."""

    armed: dict[str, _Armed] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Failpoints:
        armed: dict[str, _Armed] = {}
        for item in filter(None, (part.strip() for part in text.split(";"))):
            name, _, rest = item.partition("=")
            action, _, at = rest.partition("@")
            action, _, delay = action.partition(":")
            if name not in FAILPOINTS:
                raise UserError(
                    f"unknown failpoint '{name}': `headgate failpoints` lists them",
                    code="failpoint",
                )
            if action not in ("kill", "error", "delay") or (
                action == "delay" and not delay.isdigit()
            ):
                raise UserError(
                    f"failpoint '{item}': the action must be kill, error or delay:MILLISECONDS",
                    code="failpoint",
                )
            nth = None if at == "*" else int(at or 1)
            armed[name] = _Armed(action=action, delay_ms=int(delay or 0), at=nth)
        return cls(armed)

    def hit(self, name: str) -> None:
        """Pass the failpoint: does nothing unless it is armed."""
        assert name in FAILPOINTS, name
        point = self.armed.get(name)
        if point is None:
            return
        point.hits += 1
        if point.at is not None and point.hits != point.at:
            return
        if point.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif point.action == "delay":
            time.sleep(point.delay_ms / 1000)
        else:
            raise InternalError(f"failpoint {name}", code="failpoint")


_process: Failpoints | None = None


def failpoint(name: str) -> None:
    """Pass a failpoint of this process, as armed by its environment."""
    global _process
    if _process is None:
        _process = Failpoints.parse(os.environ.get(ENVIRONMENT_VARIABLE, ""))
    _process.hit(name)
