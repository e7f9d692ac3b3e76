"""Previews: a query's first rows, by a job of its own that writes to no sink.

Its sinks are replaced by a file that is read here. It takes slots like every job, is stopped when
it has shown enough or took too long, and leaves nothing behind.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headgate.components import job_spec, process_code, with_process_code
from headgate.config import Config
from headgate.controller.controller import Controller
from headgate.controller.membership import DrivenElsewhere
from headgate.controller.status import JobStatus
from headgate.core.errors import ErrorInfo, ExternalError, UserError
from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import JobId
from headgate.core.masters import is_this_machine
from headgate.core.model import JsonValue
from headgate.core.ports import Clock
from headgate.operators import SinkSpec
from headgate.server.schemas import PreviewView

log = logging.getLogger("headgate.server")

# Nobody else's job begins so: see `refuse_reserved`.
PREFIX = "_preview-"
ACTIVE_MAX = 4
KEPT_MAX = 50
BYTES_MAX = 4 * 1024 * 1024
# Every micro-batch commits: rows are there to be seen as soon as they are.
CHECKPOINT_INTERVAL_MS = 0


def is_preview(job: JobId) -> bool:
    return job.startswith(PREFIX)


@dataclass
class _Preview:
    job: JobId
    folder: Path
    rows_max: int
    until_ms: int
    state: str = "created"
    started: bool = False
    rows: list[JsonValue] = field(default_factory=list)
    truncated: bool = False
    error: ErrorInfo | None = None
    done: bool = False

    def view(self) -> PreviewView:
        return PreviewView(
            id=self.job,
            state=self.state,
            done=self.done,
            error=self.error,
            truncated=self.truncated,
            rows=list(self.rows),
        )

    @property
    def output(self) -> Path:
        return self.folder / "rows.jsonl"


class Previews:
    """The previews of this service: a few at a time, and the rows of the last ones."""

    def __init__(self, controller: Controller, folder: Path, clock: Clock) -> None:
        self._controller = controller
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._previews: dict[JobId, _Preview] = {}
        # So others know whose it is: only this service can read its rows.
        self._prefix = f"{PREFIX}{controller.membership.card.instance}-"

    def create(
        self, graph: PipelineGraph, config: Config, *, rows_max: int, seconds_max: int
    ) -> PreviewView:
        """Start a preview of the graph."""
        job = JobId(f"{self._prefix}{secrets.token_hex(6)}")
        preview = _Preview(
            job=job,
            folder=self._folder / job,
            rows_max=rows_max,
            until_ms=self._clock.now_ms() + seconds_max * 1000,
        )
        with self._lock:
            if sum(not p.done for p in self._previews.values()) >= ACTIVE_MAX:
                raise ExternalError(
                    f"{ACTIVE_MAX} previews are running: wait for one to end", code="too_many"
                )
            self._previews[job] = preview
            self._drop_oldest()
        try:
            self._start(preview, graph, config)
        except BaseException:
            preview.done = True
            raise
        return preview.view()

    def _start(self, preview: _Preview, graph: PipelineGraph, config: Config) -> None:
        job = preview.job
        preview.folder.mkdir(parents=True)
        complete = with_process_code(graph, process_code(graph))
        graph = _redirected(complete, preview.output)
        spec = job_spec(_on_this_machine(config), name=job, graph=graph)
        limits = replace(spec.limits, checkpoint_interval_ms=CHECKPOINT_INTERVAL_MS, restarts_max=0)
        spec = replace(spec, state_url=str(preview.folder / "state"), limits=limits)
        self._controller.create_job(spec, job, for_headgate=True)
        preview.started = True

    def get(self, preview: str) -> PreviewView:
        found = self._found(preview)
        if not found.done:
            self._look(found)
        return found.view()

    def cancel(self, preview: str) -> None:
        """End it, and forget what it has shown."""
        found = self._found(preview)
        found.done = True
        with self._lock:
            self._previews.pop(found.job, None)

    def sweep(self, jobs: Sequence[JobStatus]) -> None:
        """Look at those that run, and remove the jobs of those that are over.

        `jobs` are all jobs of previews that there are, those of other services too.
        """
        with self._lock:
            running = [p for p in self._previews.values() if not p.done]
        for preview in running:
            self._look(preview)
        others = [status for status in jobs if not status.job.startswith(self._prefix)]
        alive = self._prefixes_of_others() if others else ()
        for status in jobs:
            # One of a service that is there is that one's business.
            if not status.job.startswith(alive):
                self._remove_if_over(status)

    def _prefixes_of_others(self) -> tuple[str, ...]:
        """Return how the jobs of previews begin that other services show."""
        membership = self._controller.membership
        return tuple(
            f"{PREFIX}{seen.card.instance}-"
            for seen in membership.controllers()
            if seen.card.holder != membership.card.holder and not membership.is_silent(seen)
        )

    def _remove_if_over(self, status: JobStatus) -> None:
        with self._lock:
            preview = self._previews.get(status.job)
        # One that is not known is left from another life of this service, or from another service.
        if preview is not None and not preview.done:
            return
        try:
            if not status.terminal:
                self._controller.stop_job(status.job, "force")
                return
            self._controller.delete_job(status.job)
        except DrivenElsewhere:
            # It is being ended there, or will be when that lease has run out.
            return
        shutil.rmtree(self._folder / status.job, ignore_errors=True)

    def _found(self, preview: str) -> _Preview:
        with self._lock:
            found = self._previews.get(JobId(preview))
        if found is None:
            raise UserError(f"there is no preview {preview}", code="no_such_preview")
        return found

    def _look(self, preview: _Preview) -> None:
        """Take over what the job has shown so far, and decide whether it is over."""
        try:
            status = self._controller.job_status(preview.job)
        except UserError:
            # Not yet created, or already removed.
            preview.done = preview.started
            return
        preview.rows, preview.truncated = _read_rows(preview.output, preview.rows_max)
        preview.state, preview.error = status.state, status.error
        timed_out = self._clock.now_ms() >= preview.until_ms
        preview.done = status.terminal or timed_out or len(preview.rows) >= preview.rows_max

    def _drop_oldest(self) -> None:
        over = [job for job, preview in self._previews.items() if preview.done]
        for job in over[: max(0, len(self._previews) - KEPT_MAX)]:
            del self._previews[job]


def _on_this_machine(config: Config) -> Config:
    """Return the settings with a master that sees the preview's folder.

    A preview is small, and its state and its rows are files of the service's host.
    """
    if is_this_machine(config.job.master):
        return config
    here = config.job.model_copy(update={"master": "local", "package": None})
    return config.model_copy(update={"job": here})


def _redirected(graph: PipelineGraph, output: Path) -> PipelineGraph:
    """Return the graph with every sink writing to the file instead."""

    def redirect(operator: Operator) -> Operator:
        if not isinstance(operator.spec, SinkSpec):
            return operator
        spec = replace(operator.spec, connector="preview", options={"path": str(output)})
        return replace(operator, spec=spec)

    return replace(graph, operators=tuple(redirect(o) for o in graph.operators))


def _read_rows(path: Path, rows_max: int) -> tuple[list[JsonValue], bool]:
    """Return the first rows, and whether there are more."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX)
    except FileNotFoundError:
        return [], False
    # The last line may still be being written.
    lines = data.split(b"\n")[:-1]
    rows: list[JsonValue] = [json.loads(line) for line in lines[:rows_max]]
    return rows, len(lines) > rows_max or len(data) == BYTES_MAX
