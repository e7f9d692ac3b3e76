"""The life of one generation in its worker process: register, start, restore, run, end."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from headgate.connectors.base import NamedSink, Sink, SpreadSink
from headgate.connectors.registry import connector
from headgate.core.applications import application_name
from headgate.core.errors import ErrorInfo, ExternalError, InternalError, error_info
from headgate.core.failpoints import failpoint
from headgate.core.ids import OperatorId, WorkerId
from headgate.core.jvm_folder import elsewhere
from headgate.core.masters import is_local
from headgate.core.messages import (
    Assignment,
    Heartbeat,
    Register,
    RunSettings,
    Start,
    TaskFailed,
)
from headgate.engine.batch.microbatch import Engine
from headgate.engine.executors.cluster import Cluster
from headgate.engine.executors.forerunners import end_forerunners
from headgate.engine.executors.survey import question_for
from headgate.engine.executors.watch import ExecutorWatch
from headgate.engine.jvm.session import adopt_session, jvm_is_gone
from headgate.engine.worker.link import ControllerLink
from headgate.engine.worker.loop import WorkerLoop
from headgate.engine.worker.rules.progress import first_progress
from headgate.engine.worker.scratch import discard_older, open_scratch
from headgate.operators import SinkSpec, SourceSpec
from headgate.storage import place_of

START_TIMEOUT_SECONDS = 60

log = logging.getLogger("headgate.worker")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def work(assignment: Assignment, controller: str, session: Callable[[], SparkSession]) -> int:
    """Register as the worker of a generation and run it; `session` waits until Spark is up."""
    generation = assignment.generation
    failpoint("worker.before_register")
    link = ControllerLink(controller)
    link.send(
        Register(
            job=assignment.job,
            generation=generation,
            worker=WorkerId(f"worker_{uuid.uuid4().hex[:12]}"),
            token=assignment.token,
            pid=os.getpid(),
            host=socket.gethostname(),
        )
    )
    try:
        start = link.inbox.first(START_TIMEOUT_SECONDS)
        if not isinstance(start, Start):
            raise InternalError(f"expected to be told what to run, got {start}")
        failure = run(start, link, session)
    except Exception as error:
        # The process's boundary: whatever it was, the controller is told.
        log.exception("generation %s failed", generation)
        link.send(TaskFailed(generation=generation, error=error_info(error)))
        return 1
    finally:
        link.close()
    return 0 if failure is None else 1


def run(
    start: Start, link: ControllerLink, session: Callable[[], SparkSession]
) -> ErrorInfo | None:
    """Wait for Spark, restore, and run until the end; return why it failed, if it did."""
    settings = start.settings
    heart = _Heart(start, link)
    heart.start()
    os.makedirs(settings.scratch_dir, exist_ok=True)
    discard_older(settings, start.job, start.generation)
    scratch = open_scratch(start)
    begun = time.perf_counter()
    place = place_of(settings.state_url)
    name = application_name(start.job, start.generation, place)
    spark = adopt_session(session(), settings, parallelism=start.parallelism, app_name=name)
    log.info("waited %.1f s for spark", time.perf_counter() - begun)
    try:
        engine = Engine(
            spark=spark,
            graph=start.graph,
            sources={
                o.id: connector(o.spec.connector).open_source(o.spec)
                for o in start.graph.sources()
                if isinstance(o.spec, SourceSpec)
            },
            sinks={
                o.id: _opened(o.id, o.spec, spark)
                for o in start.graph.sinks()
                if isinstance(o.spec, SinkSpec)
            },
        )
        watch = _watch(start, link, spark)
        if watch is not None:
            context, job = spark.sparkContext, start.job
            end_forerunners(context, settings.master, job, start.generation, place)
            heart.watch_executors(watch)
            watch.begin()
        loop = WorkerLoop(
            start,
            engine,
            link,
            now_ms,
            scratch,
            _cache_dir(settings),
            partial(_explained, spark, watch),
            None if watch is None else watch.before_batch,
        )
        heart.watch(loop)
        return loop.run()
    except Exception as error:
        if jvm_is_gone(spark):
            raise _jvm_lost() from error
        raise
    finally:
        heart.stop()
        if not jvm_is_gone(spark):
            spark.stop()
        # Scratch is of no use to another generation.
        scratch.close()
        for folder in filter(None, (settings.scratch_dir, elsewhere(settings.scratch_dir))):
            shutil.rmtree(folder, ignore_errors=True)


def _cache_dir(settings: RunSettings) -> str | None:
    """Return the folder of copies of runs; None = each executor has its own."""
    if not is_local(settings.master):
        return None
    return settings.cache_dir or os.path.join(settings.scratch_dir, "cache")


def _watch(start: Start, link: ControllerLink, spark: SparkSession) -> ExecutorWatch | None:
    """Return what compares the executors with the driver; on a local master there are none."""
    settings = start.settings
    if is_local(settings.master):
        return None
    return ExecutorWatch(
        Cluster(spark.sparkContext),
        question_for(start.graph, settings.state_url, start.job),
        start.generation,
        link.send,
        slots=start.parallelism,
        # Who starts a job for the first time is there to act upon what is wrong.
        strict=start.plan.checkpoint is None,
    )


def _opened(operator: OperatorId, spec: SinkSpec, spark: SparkSession) -> Sink:
    sink = connector(spec.connector).open_sink(spec)
    if isinstance(sink, NamedSink):
        sink.set_operator(operator)
    if isinstance(sink, SpreadSink):
        sink.set_session(spark)
    return sink


def _explained(spark: SparkSession, watch: ExecutorWatch | None, error: Exception) -> ErrorInfo:
    """Say what an error of this generation means. Whatever fails without its JVM fails for that."""
    log.error("the generation has failed", exc_info=error)
    if jvm_is_gone(spark):
        return error_info(_jvm_lost())
    if watch is not None:
        # An executor that was lost may be why.
        watch.report()
    return error_info(error)


def _jvm_lost() -> ExternalError:
    return ExternalError(
        "the JVM of the Spark driver has ended: the worker's log may say why; if it ran "
        "out of memory, set spark.driver.memory",
        code="jvm_lost",
    )


class _Heart:
    """Sends heartbeats with the loop's progress, from the moment the worker is registered."""

    def __init__(self, start: Start, link: ControllerLink) -> None:
        self._start = start
        self._link = link
        self._loop: WorkerLoop | None = None
        self._begun = first_progress(start)
        self._executors: ExecutorWatch | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, loop: WorkerLoop) -> None:
        self._loop = loop

    def watch_executors(self, executors: ExecutorWatch) -> None:
        self._executors = executors

    def stop(self) -> None:
        self._stopped.set()

    def _beat(self) -> None:
        interval = self._start.settings.heartbeat_interval_ms / 1000
        while not self._stopped.wait(interval):
            progress = self._begun
            if (loop := self._loop) is not None:
                progress = replace(loop.progress, batch_running_ms=loop.batch_running_ms)
            if self._executors is not None:
                progress = replace(
                    progress,
                    executors=self._executors.count,
                    waiting_for=self._executors.waiting_for,
                )
            self._link.send(Heartbeat(generation=self._start.generation, progress=progress))
