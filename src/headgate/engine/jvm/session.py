"""The Spark session of a worker."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headgate.core.errors import UserError
from headgate.core.jvm_folder import elsewhere, jvm_folder
from headgate.core.masters import is_local, is_this_machine
from headgate.core.messages import RunSettings, SpareSettings
from headgate.engine.executors.shipping import PYTHON, for_executors
from headgate.engine.jvm.class_archive import java_options, rehearse
from headgate.engine.jvm.gateway import StartingJvm

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CORES_MAX = "spark.cores.max"

# An empty micro-batch must still run its stateful operators (a window may be due) and be seen to
# read its sources, so the optimizer may not remove a plan because its input is empty, because no
# row passes a condition that is always false, or because none is wanted.
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_EXCLUDED_RULES = ",".join(
    f"{_OPTIMIZER}.{rule}"
    for rule in ("PropagateEmptyRelation", "PruneFilters", "OptimizeLimitZero")
)

# Micro-batches leave little behind, and nobody waits for a pause of milliseconds: the collector
# that costs least. The compiler is told to leave alone what is only lukewarm: on few cores it takes
# them from the work for minutes.
_COLLECTOR = "-XX:+UseParallelGC"
_NAMES_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_COMPILER = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=5000 "
    "-XX:Tier4CompileThreshold=80000"
)

# Spark keeps a description of every job, stage, task and query for its web page, a thousand and
# more of each: tens of megabytes that a job of small micro-batches fills for an hour. What Headgate
# shows of a job it has counted itself. Whoever turns the page on may ask for more.
_REMEMBERED = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "1000",
    "spark.ui.retainedDeadExecutors": "10",
    "spark.sql.ui.retainedExecutions": "10",
}

# On a cluster.
_CLUSTER = {
    # A subtask waits a moment for the host that has its files (see `plan/empty.py`), and not
    # because much of its input happens to be somewhere: that comes from everywhere.
    "spark.locality.wait": "500ms",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.sql.unionOutputPartitioning": "true",
    # A host that loses its power says nothing. Spark would wait for it for minutes, in each of
    # several places, and a micro-batch with it.
    "spark.network.timeout": "40s",
    "spark.network.timeoutInterval": "10s",
    "spark.executor.heartbeatInterval": "5s",
    # And an executor whose driver is silent for as long ends.
    "spark.executor.heartbeat.maxFailures": "8",
    "spark.shuffle.io.connectionCreationTimeout": "10s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "2s",
}

# Keeps the libraries that Python workers use from starting threads as they are imported.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}

# A process whose connections are closed ends within this time.
JVM_END_SECONDS = 5.0


def start_session(settings: RunSettings, *, parallelism: int, app_name: str) -> SparkSession:
    """Start Spark, or make a session on the JVM that is connected already."""
    _prepare_environment(settings)
    builder = SparkSession.builder.master(spark_master(settings, parallelism)).appName(app_name)
    for key, value in configuration(settings, parallelism=parallelism).items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def start_jvm(wanted: SpareSettings, log: Path | None = None) -> StartingJvm:
    """Tell the JVM to start before it is known what it will run; it prints into `log`, if given."""
    settings = _run_settings(wanted)
    _prepare_environment(settings)
    conf = configuration(settings, parallelism=wanted.parallelism)
    conf["spark.master"] = spark_master(settings, wanted.parallelism)
    return StartingJvm(conf, wanted.scratch_dir, _driver_folders(wanted), log)


def _driver_folders(wanted: SpareSettings) -> dict[str, str]:
    """Have the driver's own blocks go with the generation, and say nothing to the executors.

    A setting of Spark would be theirs as well, and name a folder that they do not have.
    """
    if is_local(wanted.master) or "SPARK_LOCAL_DIRS" in os.environ:
        return {}
    return {"SPARK_LOCAL_DIRS": os.path.join(wanted.scratch_dir, "spark")}


def session_of(wanted: SpareSettings, jvm: StartingJvm) -> SparkSession:
    """Wait for the JVM and start Spark in it."""
    jvm.connect()
    settings = _run_settings(wanted)
    return start_session(settings, parallelism=wanted.parallelism, app_name=wanted.app_name)


def _run_settings(wanted: SpareSettings) -> RunSettings:
    return RunSettings(
        state_url="",
        scratch_dir=wanted.scratch_dir,
        master=wanted.master,
        spark_conf=wanted.spark_conf,
    )


def _prepare_environment(settings: RunSettings) -> None:
    # Spark would otherwise pick any `python3` for its workers. On other hosts Python may be
    # elsewhere; here there is no reason to run another one.
    named = None if is_local(settings.master) else settings.spark_conf.get(PYTHON)
    os.environ["PYSPARK_PYTHON"] = named or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Loopback is enough for a local session, and a laptop's host name may not resolve.
    if is_this_machine(settings.master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = elsewhere(settings.scratch_dir)
    if folder is not None:
        _make_for_us(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _make_for_us(folder: str) -> None:
    """Make a folder among those of all users, unless one of an earlier life is there."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if os.lstat(folder).st_uid != os.getuid():
            raise UserError(
                f"'{folder}' belongs to another user: remove it, or keep data under a shorter path",
                code="temporary_folder",
            ) from None


def configuration(settings: RunSettings, *, parallelism: int) -> dict[str, str]:
    """Return the settings the plans rely on; the user's own come last if harmless."""
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.scheduler.mode": "FAIR",
        **_REMEMBERED,
        # A cut names its files: Spark need not start a job to list them.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # If one of these is on, Spark copies its session for every frame that is persisted, with a
        # class loader, and starts a process (`rm`) for each copy that is collected. Neither can do
        # anything here: no table has buckets, and adaptive execution is off.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        "spark.sql.adaptive.applyFinalStageShuffleOptimizations": "false",
        # Catalyst would carry every condition of a source through every renaming of its columns:
        # the ways to say it double with each, and a plan of many columns is never done.
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.log.level": "ERROR",
        # Python workers are forked from a process that has imported everything: no library may
        # have started a thread there.
        **{f"spark.executorEnv.{name}": value for name, value in ONE_THREAD.items()},
        # Over TCP the end of the rows waits 40 ms for the acknowledgement of what came before it.
        "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    }
    required = {
        # Subtask of a row = pmod(hash(key), parallelism): exchanges have `parallelism` partitions,
        # and adaptive execution, which would merge them, stays off.
        "spark.sql.shuffle.partitions": str(parallelism),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.optimizer.excludedRules": _EXCLUDED_RULES,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "headgate.engine.jvm.daemon",
        "spark.sql.ansi.enabled": "true",
    }
    temporary = jvm_folder(settings.scratch_dir)
    if os.path.isabs(settings.scratch_dir) and is_local(settings.master):
        # Shuffle files go with the generation's scratch, also if Spark is killed.
        defaults["spark.local.dir"] = os.path.join(settings.scratch_dir, "spark")
        if temporary is not None:
            # So do the sockets of its Python workers.
            defaults["spark.python.unix.domain.socket.dir"] = temporary
    if not is_local(settings.master):
        defaults |= _CLUSTER
    cores = _cores_max(settings, parallelism)
    if cores is not None:
        defaults[CORES_MAX] = cores
    if is_this_machine(settings.master):
        defaults["spark.driver.host"] = "127.0.0.1"
    configured = defaults | settings.spark_conf | required
    if not is_local(settings.master):
        configured |= for_executors(configured)
    of_user = configured.get(JAVA_OPTIONS, "")
    configured[JAVA_OPTIONS] = _java_options(temporary, of_user)
    return configured


def _cores_max(settings: RunSettings, parallelism: int) -> str | None:
    """Return how many cores of a standalone cluster a job takes; None = Spark is not told.

    A slot is one core. Otherwise the first job would take the whole cluster.
    """
    default = str(parallelism) if settings.master.startswith("spark://") else None
    return settings.spark_conf.get(CORES_MAX, default)


def _java_options(temporary: str | None, of_user: str) -> str:
    """Return the options of the driver's JVM; if the user says otherwise, the user wins."""
    collector = "" if _NAMES_COLLECTOR.search(of_user) else _COLLECTOR
    # What Spark leaves in its folder of temporary files goes with the generation as well; its
    # sockets are there, too.
    folder = "" if temporary is None else f'"-Djava.io.tmpdir={temporary}"'
    options = (collector, _COMPILER, java_options(), folder, of_user)
    return " ".join(each for each in options if each)


def spark_master(settings: RunSettings, parallelism: int) -> str:
    """Return the master as Spark is told."""
    # One thread per subtask; a task that fails because its Python worker died is simply run again.
    return f"local[{parallelism},4]" if settings.master == "local" else settings.master


def warmed(session: SparkSession, spare: SpareSettings) -> SparkSession:
    """Let Spark do a little of what jobs do.

    The first exchange and the first Python worker cost seconds: classes are loaded, code is
    compiled. Here nobody waits for it.
    """
    if is_local(spare.master):
        # Elsewhere the executors may not see this folder.
        rehearse(session, spare.scratch_dir)
    return session


def adopt_session(
    session: SparkSession, settings: RunSettings, *, parallelism: int, app_name: str
) -> SparkSession:
    """Return a session that is up, made fit for a job; its static settings fit already."""
    cores = session.sparkContext.getConf().get(CORES_MAX)
    if session.sparkContext.master != spark_master(settings, parallelism) or cores != _cores_max(
        settings, parallelism
    ):
        # Another number of threads or cores needs another context; the JVM stays.
        session.stop()
        return start_session(settings, parallelism=parallelism, app_name=app_name)
    # Another thread has made the session; what is parsed in this one must see its settings too.
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    session.conf.set("spark.sql.shuffle.partitions", str(parallelism))
    return session


def jvm_is_gone(session: SparkSession) -> bool:
    """Whether the process of the driver's JVM has ended, so that nothing can be asked of it."""
    gateway = session.sparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return False
    try:
        # A broken connection is seen a moment before the end of the process it led to.
        process.wait(timeout=JVM_END_SECONDS if _is_broken(session) else 0)
    except subprocess.TimeoutExpired:
        return False
    return True


def _is_broken(session: SparkSession) -> bool:
    try:
        session.sparkContext.defaultParallelism  # noqa: B018  any call will do
    except (Py4JError, OSError):
        return True
    return False
