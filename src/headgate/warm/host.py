"""The process: starts Spark, then runs the queries that it is asked, until nobody is there to ask.

`python -m headgate.warm --socket FD` with the settings of Spark in the environment. The thread of
the process runs queries; another one reads requests, so that a running query can be cancelled.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.connectors.base import Sink
from headgate.core.errors import ErrorInfo, InternalError, error_info
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.jvm_folder import elsewhere
from headgate.core.messages import SPARK_VARIABLE, SpareSettings
from headgate.core.model import from_json, to_json
from headgate.engine.batch.context import BatchRequest
from headgate.engine.batch.microbatch import BatchResult
from headgate.engine.jvm.gateway import StartingJvm
from headgate.engine.jvm.session import jvm_is_gone, session_of, warmed
from headgate.engine.worker.__main__ import start_with_python
from headgate.operators import SinkSpec
from headgate.planner import plan
from headgate.rehearsal import EveryBatches, Rehearsal
from headgate.warm.messages import (
    Answer,
    CancelQuery,
    Ended,
    NotStarted,
    Read,
    Ready,
    Request,
    Rows,
    RunQuery,
)
from headgate.warm.rows_sink import RowsSink

log = logging.getLogger("headgate.warm")

CANCEL_AGAIN_SECONDS = 0.25

# Run once before anybody asks: what the first query loads and compiles takes a second or two.
_FIRST_QUERY = """
CREATE TABLE warm WITH (connector = 'impulse', message_count = 10);
SELECT counter, count(*) AS n FROM warm WHERE counter >= 0 GROUP BY counter
"""


def main(descriptor: int) -> int:
    """Serve the connection until its other end is closed; the exit code says how it ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Ctrl-C in a terminal is for the prompt, which says what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings: SpareSettings = from_json(SpareSettings, os.environ[SPARK_VARIABLE])
    # Before any thread: the parent of the Python workers is forked from here.
    jvm = start_with_python(settings)
    host = Host(socket.socket(fileno=descriptor), settings, jvm)
    with ThreadPoolExecutor(1, thread_name_prefix="spark-start") as pool:
        starting = pool.submit(session_of, settings, jvm)
        try:
            spark = starting.result()
        except Exception as error:
            # The boundary of the process: whoever waits for Spark is told why there is none.
            log.exception("spark did not start")
            host.say(NotStarted(error=error_info(error)))
            return 1
    return host.serve(spark)


class Host:
    """The process's end of the connection, and the query that runs."""

    def __init__(
        self, connection: socket.socket, settings: SpareSettings, jvm: StartingJvm
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._jvm = jvm
        self._sending = threading.Lock()
        self._asked: queue.Queue[RunQuery] = queue.Queue()
        self._lock = threading.Lock()
        # Told when a query has ended.
        self._ended = threading.Condition(self._lock)
        self._running: tuple[int, Rehearsal] | None = None
        self._cancelled: set[int] = set()
        threading.Thread(target=self._listen, name="requests", daemon=True).start()

    def say(self, answer: Answer) -> None:
        """Send one answer; if nobody is there any more, this process has no purpose."""
        try:
            with self._sending:
                self._connection.sendall(to_json(answer) + b"\n")
        except OSError:
            self._end()

    def serve(self, spark: SparkSession) -> int:
        """Run what is asked, one after the other."""
        # What makes the first query fast is of no use to one that waits already.
        if self._asked.empty():
            warmed(spark, self._settings)
        if self._asked.empty():
            self._run_first(spark)
        self.say(Ready())
        while True:
            asked = self._asked.get()
            error = None
            finished = False
            try:
                finished, error = self._run(spark, asked)
            except Exception as raised:
                # The boundary of a query: it has failed, and the next one is another one.
                log.exception("query %s failed", asked.query)
                error = error_info(raised)
            self.say(Ended(query=asked.query, finished=finished, error=error))
            if jvm_is_gone(spark):
                return 1

    def _run_first(self, spark: SparkSession) -> None:
        graph = plan(_FIRST_QUERY)
        with self._folder() as folder:
            sinks = _sinks(graph, lambda lines: None)
            rehearsal = Rehearsal(spark, graph, Path(folder), sinks=sinks)
            outcome = rehearsal.run(parallelism=self._settings.parallelism, barrier_always=True)
        if outcome.error is not None:
            log.warning("the query that warms Spark failed", exc_info=outcome.error)

    def _run(self, spark: SparkSession, asked: RunQuery) -> tuple[bool, ErrorInfo | None]:
        def hand_over(lines: tuple[str, ...]) -> None:
            if asked.query not in self._cancelled:
                self.say(Rows(query=asked.query, lines=lines))

        with self._folder() as folder:
            sinks = _sinks(asked.graph, hand_over)
            rehearsal = Rehearsal(spark, asked.graph, Path(folder), sinks=sinks)
            with self._lock:
                if asked.query in self._cancelled:
                    return False, None
                self._running = asked.query, rehearsal
            try:
                outcome = rehearsal.run(
                    parallelism=asked.parallelism,
                    rows_per_batch=asked.rows_per_batch,
                    conduct=_Telling(self, asked.query),
                )
            finally:
                with self._lock:
                    self._running = None
                    self._cancelled.discard(asked.query)
                    self._ended.notify_all()
        if outcome.cancelled:
            return False, None
        failure = outcome.failures[0].error if outcome.failures else None
        return outcome.finished, failure

    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="query-", dir=self._settings.scratch_dir)

    def _listen(self) -> None:
        with self._connection.makefile("rb") as lines:
            for line in lines:
                request = from_json(Request, line)
                if isinstance(request, CancelQuery):
                    self._cancel(request.query)
                else:
                    self._asked.put(request)
        self._end()

    def _cancel(self, number: int) -> None:
        with self._lock:
            self._cancelled.add(number)
        threading.Thread(target=self._cancel_until_over, args=(number,), daemon=True).start()

    def _cancel_until_over(self, number: int) -> None:
        """Cancel more than once: a job of Spark that begins just then would run to its end."""
        with self._ended:
            while self._running is not None and self._running[0] == number:
                self._running[1].cancel()
                self._ended.wait(CANCEL_AGAIN_SECONDS)

    def _end(self) -> None:
        """End at once, whatever runs. The JVM first: it may be about to write to the folder."""
        self._jvm.kill()
        scratch = self._settings.scratch_dir
        for folder in filter(None, (scratch, elsewhere(scratch))):
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


class _Telling(EveryBatches):
    """Publishes after every micro-batch, and says how many rows were read."""

    def __init__(self, host: Host, query: int) -> None:
        super().__init__(barrier_always=True)
        self._host = host
        self._query = query
        self._rows = self._bad = 0
        self._bad_sample: str | None = None

    def ran(self, request: BatchRequest, result: BatchResult) -> BatchResult:
        for seen in result.observed.values():
            self._rows += seen.rows
            self._bad += seen.bad
            self._bad_sample = self._bad_sample or seen.bad_sample
        said = Read(query=self._query, rows=self._rows, bad=self._bad, bad_sample=self._bad_sample)
        self._host.say(said)
        return super().ran(request, result)


def _sinks(
    graph: PipelineGraph, hand_over: Callable[[tuple[str, ...]], None]
) -> dict[OperatorId, Sink]:
    found: dict[OperatorId, Sink] = {}
    for operator in graph.sinks():
        spec = operator.spec
        if not isinstance(spec, SinkSpec) or spec.connector != "preview":
            raise InternalError(f"{operator.id} is no preview: a query here shows its rows only")
        found[operator.id] = RowsSink(spec, hand_over)
    return found
