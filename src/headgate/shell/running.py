"""One query from Enter to its end: its rows as they come, Ctrl-C, and a worker that dies.

Ctrl-C ends the query. A worker that is gone is replaced by a new one; the query that it ran is not
repeated, because nobody knows whether it would not do the same again.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from types import FrameType

from headgate.core.durations import format_duration
from headgate.core.errors import ErrorInfo
from headgate.operators import SinkSpec
from headgate.shell.screen import QueryRows, Screen
from headgate.shell.session import PlannedQuery
from headgate.warm.messages import Ended, Gone, Read, Ready, Rows
from headgate.warm.worker import QueryEvent, WarmWorker

LOOK_SECONDS = 0.25
# A query that does not end within this time after Ctrl-C takes its worker with it.
CANCEL_SECONDS = 20.0
# From then on the last line says what the query does.
QUIET_SECONDS = 2.0


class HowEnded(Enum):
    DONE = auto()
    FAILED = auto()
    INTERRUPTED = auto()


@dataclass(frozen=True)
class _Interrupt:
    """Ctrl-C was pressed."""


class Workers:
    """The worker of the shell: there is always one, or one that starts."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._worker = WarmWorker(parallelism=parallelism)

    @property
    def current(self) -> WarmWorker:
        return self._worker

    def alive(self) -> WarmWorker:
        """Return the worker; if it has died while nobody asked anything, a new one."""
        if self._worker.gone:
            self.replace()
        return self._worker

    def replace(self) -> WarmWorker:
        """End the worker, whatever it does, and start another one."""
        self._worker.close()
        self._worker = WarmWorker(parallelism=self._parallelism)
        return self._worker

    def close(self) -> None:
        self._worker.close()


class QueryRun:
    """Runs one query to its end, its limit, or Ctrl-C."""

    def __init__(self, workers: Workers, screen: Screen, planned: PlannedQuery) -> None:
        self._workers = workers
        self._screen = screen
        self._events: queue.SimpleQueue[QueryEvent | _Interrupt] = queue.SimpleQueue()
        self._graph = planned.graph
        sinks = [o.spec for o in planned.graph.sinks()]
        updating = any(isinstance(s, SinkSpec) and s.updating for s in sinks)
        self._rows = QueryRows(screen, updating=updating, rows_max=planned.rows_max)
        self._read = Read(query=0, rows=0)
        self._begun = self._spoken = time.monotonic()
        self._cancelled_at: float | None = None
        self._interrupted = False

    def run(self) -> HowEnded:
        """Run it; what it shows and how it ended is on the screen then."""
        worker = self._workers.alive()
        if not worker.ready:
            self._screen.status(_starting(worker))
        with self._interrupts():
            number = worker.run(self._graph, self._events.put)
            while True:
                event = self._next()
                ended = self._took(event, worker, number)
                if ended is not None:
                    return ended

    def _next(self) -> QueryEvent | _Interrupt | None:
        try:
            return self._events.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return None

    def _took(
        self, event: QueryEvent | _Interrupt | None, worker: WarmWorker, number: int
    ) -> HowEnded | None:
        match event:
            case Rows(lines=lines):
                if self._cancelled_at is None:
                    self._rows.show(lines)
                    self._spoken = time.monotonic()
                    if self._rows.is_enough:
                        self._cancel(worker, number)
            case Read():
                self._read = event
            case Ready():
                # The time that a query took is not that of Spark's start.
                self._begun = self._spoken = time.monotonic()
                self._screen.status("")
            case Ended():
                return self._ended(event)
            case Gone():
                return self._gone(worker)
            case _Interrupt():
                self._interrupted = True
                if self._cancelled_at is not None or not worker.ready:
                    return self._abandoned(worker, number)
                self._cancel(worker, number)
            case None:
                if self._is_overdue():
                    return self._abandoned(worker, number)
                self._screen.status(self._doing(worker))
        return None

    def _cancel(self, worker: WarmWorker, number: int) -> None:
        if self._cancelled_at is None:
            self._cancelled_at = time.monotonic()
        worker.cancel(number)

    def _is_overdue(self) -> bool:
        cancelled = self._cancelled_at
        return cancelled is not None and time.monotonic() - cancelled > CANCEL_SECONDS

    def _doing(self, worker: WarmWorker) -> str:
        if not worker.ready:
            return _starting(worker)
        if self._cancelled_at is not None:
            return "ending the query; Ctrl-C again ends its worker"
        now = time.monotonic()
        if now - self._spoken < QUIET_SECONDS:
            return ""
        return (
            f"running for {format_duration(round(now - self._begun) * 1000)}, "
            f"{self._read.rows:,} rows read, {self._rows.count:,} shown; Ctrl-C ends the query"
        )

    # ---- how it ends -------------------------------------------------------------------------

    def _ended(self, ended: Ended) -> HowEnded:
        if ended.error is not None and self._cancelled_at is None:
            self._failed(ended.error)
            return HowEnded.FAILED
        self._say_count()
        return HowEnded.INTERRUPTED if self._interrupted else HowEnded.DONE

    def _say_count(self) -> None:
        count = self._rows.count
        elapsed = format_duration((time.monotonic() - self._begun) * 1000)
        rows = f"{count:,} row" if count == 1 else f"{count:,} rows"
        end = "until Ctrl-C after" if self._interrupted else "in"
        self._screen.note(f"{rows} {end} {elapsed}")
        if self._read.bad:
            sample = f": {self._read.bad_sample}" if self._read.bad_sample else ""
            self._screen.complain(
                f"{self._read.bad:,} rows could not be read and were left out{sample}"
            )

    def _failed(self, error: ErrorInfo) -> None:
        where = f" in operator {error.operator}" if error.operator else ""
        self._screen.complain(f"error{where}: {error.message}")

    def _gone(self, worker: WarmWorker) -> HowEnded:
        if worker.failure is not None:
            self._failed(worker.failure)
            return HowEnded.FAILED
        how = worker.how_it_ended()
        self._screen.complain(f"the worker {how}: the query has ended, and a new worker starts")
        if self._read.rows == 0 and not worker.ready and worker.log_tail():
            self._screen.complain(worker.log_tail().rstrip())
        self._workers.replace()
        return HowEnded.FAILED

    def _abandoned(self, worker: WarmWorker, number: int) -> HowEnded:
        """Leave the query alone: one that does not end is ended with its worker."""
        if worker.ready:
            self._screen.complain(
                "the query did not end: its worker is ended, and a new one starts"
            )
            self._workers.replace()
        else:
            # Spark goes on starting; the query is taken back before it begins.
            worker.cancel(number)
        self._say_count()
        return HowEnded.INTERRUPTED if self._interrupted else HowEnded.DONE

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Take Ctrl-C as a word about the query, while there is one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._events.put(_Interrupt())

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            self._screen.status("")


def _starting(worker: WarmWorker) -> str:
    return f"Spark is starting ({time.monotonic() - worker.started:.0f} s)"
