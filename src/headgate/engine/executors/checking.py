"""The comparison alone: a Spark session for as long as it takes, and no job of Headgate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headgate.core.errors import ExternalError, UserError
from headgate.core.graph import PipelineGraph
from headgate.core.messages import RunSettings
from headgate.engine.executors.cluster import Cluster
from headgate.engine.executors.compare import Answer
from headgate.engine.executors.survey import question_for, survey
from headgate.engine.executors.watch import wait_for_executors
from headgate.engine.jvm.java import java_problem
from headgate.engine.jvm.session import CORES_MAX, start_session

_LOG_CHARACTERS_MAX = 2_000


def check_cluster(
    master: str,
    spark_conf: dict[str, str],
    *,
    graph: PipelineGraph | None,
    state_url: str | None,
    cores: int,
    first_seconds: float,
) -> tuple[Answer, ...]:
    """Ask every executor that the cluster gives an application, and return what each lacks."""
    question = question_for(graph, state_url)
    with TemporaryDirectory(prefix="headgate-check-") as folder:
        # A job takes no more cores than it has subtasks; here every host is to answer.
        conf = {CORES_MAX: str(2**31 - 1), **spark_conf}
        settings = RunSettings(state_url="", scratch_dir=folder, master=master, spark_conf=conf)
        log = Path(folder) / "spark.log"
        try:
            with _errors_into(log):
                spark = start_session(settings, parallelism=1, app_name="headgate check")
            try:
                cluster = Cluster(spark.sparkContext)
                wait_for_executors(cluster, cores, first_seconds=first_seconds)
                return survey(cluster, question, cluster.ids())
            finally:
                spark.stop()
        except (Py4JError, PySparkException, RuntimeError) as error:
            problem = java_problem()
            if problem is not None:
                raise UserError(problem, code="java") from error
            raise ExternalError(
                f"Spark did not get on with {master}: {error}. Its log ends with:\n"
                f"{log.read_text(errors='replace')[-_LOG_CHARACTERS_MAX:]}",
                code="spark",
            ) from error


@contextmanager
def _errors_into(log: Path) -> Iterator[None]:
    """Let what is started meanwhile write its errors to a file: people asked for a table."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
