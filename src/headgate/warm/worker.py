"""The other end: starts the process, asks it queries, and outlives it.

Imports no Spark: it is there at once, and what is asked before Spark is up waits for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from headgate.core.errors import ErrorInfo, ExternalError
from headgate.core.graph import PipelineGraph
from headgate.core.jvm_folder import elsewhere
from headgate.core.messages import SPARK_VARIABLE, SpareSettings
from headgate.core.model import from_json, to_json
from headgate.warm.messages import (
    Answer,
    CancelQuery,
    Ended,
    Gone,
    NotStarted,
    Read,
    Ready,
    Request,
    Rows,
    RunQuery,
)

END_SECONDS = 5.0
LOG_TAIL_CHARS = 2_000
ROWS_PER_BATCH = 100_000
PROGRAM = ("-m", "headgate.warm")

QueryEvent = Ready | Rows | Read | Ended | Gone
Hear = Callable[[QueryEvent], None]


class WarmWorker:
    """One process with Spark. When it is gone, another one must be made."""

    def __init__(
        self,
        *,
        parallelism: int,
        spark_conf: dict[str, str] | None = None,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self.parallelism = parallelism
        self.started = time.monotonic()
        # Why there is no Spark, if the process has said so.
        self.failure: ErrorInfo | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-warm-"))
        self._log = self._folder / "worker.log"
        self._lock = threading.Lock()
        # A request is a line, and a long one is more than one write.
        self._sending = threading.Lock()
        self._hearing: dict[int, Hear] = {}
        self._queries = 0
        self._ready = False
        self._gone = False
        ours, theirs = socket.socketpair()
        self._connection = ours
        settings = SpareSettings(
            master="local",
            parallelism=parallelism,
            spark_conf=spark_conf or {},
            scratch_dir=str(self._folder),
        )
        with self._log.open("wb") as output, theirs:
            command = [sys.executable, *program, "--socket", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C in the terminal is not for it.
                start_new_session=True,
                env=os.environ | {SPARK_VARIABLE: to_json(settings).decode()},
            )
        threading.Thread(target=self._read, name="warm-worker", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ready(self) -> bool:
        return self._ready and not self._gone

    @property
    def gone(self) -> bool:
        return self._gone

    def run(self, graph: PipelineGraph, hear: Hear) -> int:
        """Have a query run; `hear` is called from another thread, until `Ended` or `Gone`."""
        with self._lock:
            self._queries += 1
            query = self._queries
            self._hearing[query] = hear
            gone = self._gone
        asked = RunQuery(
            query=query,
            graph=graph,
            parallelism=self.parallelism,
            rows_per_batch=ROWS_PER_BATCH,
        )
        if gone or not self._send(asked):
            self._tell(query, Gone())
        elif self._ready:
            hear(Ready())
        return query

    def cancel(self, query: int) -> None:
        """End a query; `Ended` follows, and no row before it."""
        self._send(CancelQuery(query=query))

    def how_it_ended(self) -> str:
        """Say how the process ended, once it is gone."""
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return "has closed its connection"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def log_tail(self) -> str:
        """Return the end of what the process has written."""
        try:
            return self._log.read_text(errors="replace")[-LOG_TAIL_CHARS:]
        except FileNotFoundError:
            return ""

    def raise_failure(self) -> None:
        """Raise why Spark could not be started, if it could not."""
        if self.failure is not None:
            raise ExternalError(self.failure.message, code=self.failure.code)

    def close(self) -> None:
        """End the process with everything that it has started, and remove what it has left."""
        members = self._descendants()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # The JVM and the Python workers end by themselves, unless they are stuck.
        _, alive = psutil.wait_procs(members, timeout=END_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._connection.close()
        self._remove_folder()

    def _descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _remove_folder(self) -> None:
        sockets = elsewhere(str(self._folder))
        for folder in filter(None, (str(self._folder), sockets)):
            shutil.rmtree(folder, ignore_errors=True)

    def _send(self, request: Request) -> bool:
        try:
            with self._sending:
                self._connection.sendall(to_json(request) + b"\n")
        except OSError:
            return False
        return True

    def _read(self) -> None:
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    self._take(from_json(Answer, line))
        except OSError:
            # Closed under the reader: what follows is the same.
            pass
        with self._lock:
            self._gone = True
            hearing = list(self._hearing)
        for query in hearing:
            self._tell(query, Gone())

    def _take(self, answer: Answer) -> None:
        match answer:
            case Ready():
                self._ready = True
                with self._lock:
                    waiting = list(self._hearing.values())
                for hear in waiting:
                    hear(answer)
            case NotStarted(error=error):
                self.failure = error
            case Rows(query=query) | Read(query=query) | Ended(query=query):
                self._tell(query, answer)

    def _tell(self, query: int, event: QueryEvent) -> None:
        with self._lock:
            over = isinstance(event, Ended | Gone)
            hear = self._hearing.pop(query, None) if over else self._hearing.get(query)
        if hear is not None:
            hear(event)
