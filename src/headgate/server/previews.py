"""Previews: a query's first rows, from a process with Spark that is up already.

Its sinks are replaced by one that hands its rows over; no job is made, and nothing is left behind.
A process runs one preview at a time, and the next one when it is through: whoever asks again at
once waits a moment for it. More are started when several are asked for at once, and ended when
nobody has asked for a while.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from headgate.components import process_code, with_process_code
from headgate.core.errors import ErrorDomain, ErrorInfo, ExternalError, RetryHint, UserError
from headgate.core.graph import Operator, PipelineGraph
from headgate.core.model import JsonValue
from headgate.core.ports import Clock
from headgate.operators import SinkSpec
from headgate.server.problems import SqlProblem, place_in
from headgate.server.schemas import PipelineText, PreviewState, PreviewView
from headgate.warm.messages import Ended, Gone, Read, Ready, Rows
from headgate.warm.worker import QueryEvent, WarmWorker

log = logging.getLogger("headgate.server")

# So many run at a time, each in a process of its own.
ACTIVE_MAX = 4
KEPT_MAX = 50
BYTES_MAX = 4 * 1024 * 1024
# One process waits for the next preview for so long; more than one wait for nobody.
IDLE_MS = 10 * 60 * 1000
# Spark that is not up by then does not come up.
START_MS = 2 * 60 * 1000
# A query that does not end within this time after it was told to takes its process with it.
CANCEL_MS = 20_000
# The next preview waits so long for a query that is to end: another process takes as long to start.
WAIT_SECONDS = 10.0


@dataclass
class _Preview:
    id: str
    text: PipelineText
    rows_max: int
    until_ms: int
    state: PreviewState = "starting"
    rows: list[JsonValue] = field(default_factory=list)
    bytes: int = 0
    rows_read: int = 0
    bad_rows: int = 0
    bad_sample: str | None = None
    truncated: bool = False
    error: ErrorInfo | None = None
    place: SqlProblem | None = None

    @property
    def done(self) -> bool:
        return self.state not in ("starting", "running")

    def view(self) -> PreviewView:
        return PreviewView(
            id=self.id,
            state=self.state,
            done=self.done,
            error=self.error,
            place=self.place,
            truncated=self.truncated,
            rows=list(self.rows),
            rows_read=self.rows_read,
            bad_rows=self.bad_rows,
            bad_sample=self.bad_sample,
        )


@dataclass
class _Process:
    """A process with Spark, and what it runs: `preview` is None while it waits."""

    worker: WarmWorker
    preview: _Preview | None = None
    query: int | None = None
    told_to_end_ms: int | None = None
    idle_since_ms: int = 0


class Previews:
    """The previews of this service: a few at a time, and the rows of the last ones."""

    def __init__(self, start: Callable[[], WarmWorker], clock: Clock) -> None:
        self._start = start
        self._clock = clock
        # Never held while a process is asked to run something: it may answer at once.
        self._lock = threading.Lock()
        # Told when a process is free, or gone.
        self._freed = threading.Condition(self._lock)
        self._previews: dict[str, _Preview] = {}
        self._processes: list[_Process] = []
        # Ends processes, which takes seconds.
        self._ending = ThreadPoolExecutor(ACTIVE_MAX, thread_name_prefix="preview-end")

    def create(
        self, graph: PipelineGraph, text: PipelineText, *, rows_max: int, seconds_max: int
    ) -> PreviewView:
        """Start a preview of the graph; its time is counted from when Spark is up."""
        complete = _redirected(with_process_code(graph, process_code(graph)))
        preview = _Preview(
            id=secrets.token_hex(6),
            text=text,
            rows_max=rows_max,
            until_ms=self._clock.now_ms() + START_MS,
        )
        with self._lock:
            process = self._free_process()
            process.preview = preview
            self._previews[preview.id] = preview
            self._drop_oldest()

        def hear(event: QueryEvent) -> None:
            self._take(process, preview, event, seconds_max * 1000)

        query = process.worker.run(complete, hear)
        with self._lock:
            if process.preview is preview:
                process.query = query
                if preview.done:
                    self._end_query(process)
        return self.get(preview.id)

    def get(self, preview: str) -> PreviewView:
        with self._lock:
            return self._found(preview).view()

    def cancel(self, preview: str) -> None:
        """End it, and forget what it has shown."""
        with self._lock:
            found = self._found(preview)
            self._stop(found)
            del self._previews[preview]

    def sweep(self) -> None:
        """End previews whose time is over, queries that do not end, and processes in vain."""
        now_ms = self._clock.now_ms()
        with self._lock:
            self._discard_dead()
            for process in list(self._processes):
                preview, told_ms = process.preview, process.told_to_end_ms
                if preview is None:
                    if now_ms - process.idle_since_ms >= IDLE_MS or self._idle() > 1:
                        self._discard(process)
                elif told_ms is not None and now_ms - told_ms >= CANCEL_MS:
                    self._discard(process)
                elif not preview.done and now_ms >= preview.until_ms:
                    self._time_is_over(process, preview)

    def close(self) -> None:
        """End all processes, and wait for it."""
        with self._lock:
            for process in list(self._processes):
                if process.preview is not None and not process.preview.done:
                    process.preview.state = "stopped"
                self._discard(process)
        self._ending.shutdown()

    # ---- processes; with the lock ------------------------------------------------------------

    def _idle(self) -> int:
        return sum(process.preview is None for process in self._processes)

    def _ending_now(self) -> bool:
        return any(process.told_to_end_ms is not None for process in self._processes)

    def _free_process(self) -> _Process:
        self._discard_dead()
        self._freed.wait_for(lambda: self._idle() or not self._ending_now(), WAIT_SECONDS)
        for process in self._processes:
            if process.preview is None:
                return process
        if len(self._processes) >= ACTIVE_MAX:
            raise ExternalError(
                f"{ACTIVE_MAX} previews are running: wait for one to end", code="too_many"
            )
        process = _Process(self._start())
        self._processes.append(process)
        return process

    def _discard_dead(self) -> None:
        """Discard those that have died while nobody asked anything of them."""
        for process in list(self._processes):
            if process.preview is None and process.worker.gone:
                self._discard(process)

    def _discard(self, process: _Process) -> None:
        if process in self._processes:
            self._processes.remove(process)
            self._freed.notify_all()
            self._ending.submit(_end, process.worker)

    def _end_query(self, process: _Process) -> None:
        """Have the query end; its process is free when it has."""
        if process.query is not None and process.told_to_end_ms is None:
            process.told_to_end_ms = self._clock.now_ms()
            process.worker.cancel(process.query)

    # ---- previews; with the lock -------------------------------------------------------------

    def _found(self, preview: str) -> _Preview:
        found = self._previews.get(preview)
        if found is None:
            raise UserError(f"there is no preview {preview}", code="no_such_preview")
        return found

    def _stop(self, preview: _Preview) -> None:
        if preview.done:
            return
        preview.state = "stopped"
        for process in self._processes:
            if process.preview is preview:
                self._end_query(process)

    def _time_is_over(self, process: _Process, preview: _Preview) -> None:
        if preview.state == "running":
            self._stop(preview)
            return
        self._fail(preview, _no_spark(f"Spark did not start within {START_MS // 1000} s"))
        self._discard(process)

    def _fail(self, preview: _Preview, error: ErrorInfo) -> None:
        if not preview.done:
            preview.state, preview.error = "failed", error
            preview.place = place_in(preview.text.sql, preview.text.udf_source, error)

    def _drop_oldest(self) -> None:
        over = [name for name, preview in self._previews.items() if preview.done]
        for name in over[: max(0, len(self._previews) - KEPT_MAX)]:
            del self._previews[name]

    # ---- what processes say ------------------------------------------------------------------

    def _take(self, process: _Process, preview: _Preview, event: QueryEvent, limit_ms: int) -> None:
        # Why a process has died may take a while to find out.
        error = _why_gone(process.worker) if isinstance(event, Gone) else None
        with self._lock:
            match event:
                case Ready():
                    if preview.state == "starting":
                        preview.state = "running"
                        preview.until_ms = self._clock.now_ms() + limit_ms
                case Rows(lines=lines):
                    self._show(preview, lines)
                case Read():
                    preview.rows_read = event.rows
                    preview.bad_rows, preview.bad_sample = event.bad, event.bad_sample
                case Ended(error=error):
                    if error is not None:
                        self._fail(preview, error)
                    elif not preview.done:
                        preview.state = "finished"
                    process.preview = process.query = process.told_to_end_ms = None
                    process.idle_since_ms = self._clock.now_ms()
                    self._freed.notify_all()
                case Gone():
                    self._discard(process)
                    if error is not None:
                        self._fail(preview, error)

    def _show(self, preview: _Preview, lines: tuple[str, ...]) -> None:
        if preview.done:
            return
        for line in lines:
            fits = preview.bytes + len(line) <= BYTES_MAX
            if len(preview.rows) == preview.rows_max or not fits:
                preview.truncated = True
                break
            preview.bytes += len(line)
            preview.rows.append(json.loads(line))
        if preview.truncated or len(preview.rows) == preview.rows_max:
            self._stop(preview)


def _end(worker: WarmWorker) -> None:
    try:
        worker.close()
    except Exception:
        # The thread's boundary: nobody waits for it, and what is left ends with the service.
        log.exception("a process of previews did not end as it should")


def _no_spark(message: str) -> ErrorInfo:
    return ErrorInfo(
        message=message, domain=ErrorDomain.EXTERNAL, retry=RetryHint.WITH_BACKOFF, code="preview"
    )


def _why_gone(worker: WarmWorker) -> ErrorInfo:
    if worker.failure is not None:
        return worker.failure
    how = worker.how_it_ended()
    log.error("a process of previews %s; the end of its log:\n%s", how, worker.log_tail())
    return _no_spark(f"the process that ran the preview {how}: see the log of the service")


def _redirected(graph: PipelineGraph) -> PipelineGraph:
    """Return the graph with every sink handing its rows over instead."""

    def redirect(operator: Operator) -> Operator:
        if not isinstance(operator.spec, SinkSpec):
            return operator
        spec = replace(operator.spec, connector="preview", options={})
        return replace(operator, spec=spec)

    return replace(graph, operators=tuple(redirect(o) for o in graph.operators))
