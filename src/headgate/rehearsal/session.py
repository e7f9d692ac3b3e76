"""A Spark session for rehearsals: it starts while others read and plan, and prints nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headgate.core.messages import SpareSettings
from headgate.engine.jvm.session import ONE_THREAD, session_of, start_jvm


class StartingSession:
    """A session that was told to start; `wait` gives it."""

    def __init__(self, future: Future[SparkSession], log: Path) -> None:
        self._future = future
        # What Spark prints.
        self.log = log

    def wait(self) -> SparkSession:
        """Return the session once it is up. Raises what kept it from starting."""
        return self._future.result()


@contextlib.contextmanager
def starting_session(
    app_name: str, *, cores: int = 2, spark: Mapping[str, str] | None = None
) -> Iterator[StartingSession]:
    """Start a session beside the caller, and end it, and its folder, with the block."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-spark-"))
    # Python workers are forked from a process in which no library may have started a thread.
    os.environ |= ONE_THREAD
    settings = SpareSettings(
        scratch_dir=str(folder),
        # A task that fails has failed for good: nothing here is lost but by a defect.
        master=f"local[{cores}]",
        parallelism=cores,
        spark_conf={
            # Plans are small and run once each: to optimize their code costs more than it saves.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-XX:ReservedCodeCacheSize=240m",
            **(spark or {}),
        },
        app_name=app_name,
    )
    log = folder / "spark.log"
    try:
        jvm = start_jvm(settings, log)
        with ThreadPoolExecutor(1, thread_name_prefix="spark-start") as pool:
            future = pool.submit(session_of, settings, jvm)
            try:
                yield StartingSession(future, log)
            finally:
                if future.exception() is None:
                    # The JVM may be gone already, with whoever has killed it.
                    with contextlib.suppress(Py4JError, OSError):
                        future.result().stop()
                jvm.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
