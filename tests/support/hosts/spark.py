"""A Spark standalone cluster: a Master on one host, a Worker on each of the others."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.hosts.host import Host, HostProcess
from tests.support.hosts.software import spark_home
from tests.support.spark_cluster import LOG4J, MASTER, WORKER

PORT = 7077
FOLDER = "/tmp/spark"
START_SECONDS = 120.0
# JVMs that live for a minute do better without their second compiler, and many on few cores without
# threads that collect garbage.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What a job on small hosts is told, as words of `headgate run`.
SMALL = (
    *("--set", "spark.executor.memory=512m", "--set", "spark.driver.memory=1g"),
    *("--set", f"spark.executor.extraJavaOptions={_JAVA_OPTIONS}"),
    *("--set", f"spark.driver.extraJavaOptions={_JAVA_OPTIONS}"),
)
_IS_OF_WORKER = re.compile(rf"{WORKER}|{FOLDER}/work$|{FOLDER}/local/spark-[^/]+$")


@dataclass
class SparkWorker:
    """The Worker of a host; its executors are its children."""

    host: Host
    process: HostProcess


class StandaloneCluster:
    """Workers have one core each, and their files below `/tmp/spark`.

    `env` are variables of the Master and the Workers, which executors inherit.
    """

    def __init__(
        self,
        master: Host,
        workers: Sequence[Host],
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.master = master
        self.url = f"spark://{master.name}:{PORT}"
        self._env = dict(env or {})
        self._master = self._start(master, MASTER, "--port", str(PORT))
        self._master.wait_for("I have been elected leader", patience=START_SECONDS)
        self.workers: list[SparkWorker] = []
        # All at once: a JVM takes its time.
        started = [self._start_worker(host) for host in workers]
        for worker in started:
            self._await_registration(worker)

    def add_worker(self, host: Host) -> SparkWorker:
        """Start a Worker on a host: a new one, or one that was killed and is up again."""
        worker = self._start_worker(host)
        self._await_registration(worker)
        return worker

    def executors(self, worker: SparkWorker) -> list[int]:
        """Return the JVMs of the executors on a host, by the numbers that the test sees."""
        return worker.host.find("CoarseGrainedExecutorBackend")

    def left_behind(self) -> list[str]:
        """Return what applications have left on the Workers that are up: files and processes.

        Spark keeps what executors said, and a folder of the Worker itself as long as it lives.
        """
        return [
            f"{worker.host.name}: {name}"
            for worker in self.workers
            if worker.host.is_up
            for name in worker.host.leftovers(ignoring=(f"{FOLDER}/work/", f"{FOLDER}/log4j2"))
            if not _IS_OF_WORKER.search(name)
        ]

    def log(self) -> str:
        return self._master.log()

    def _start_worker(self, host: Host) -> SparkWorker:
        resources = ("--cores", "1", "--memory", "1g")
        process = self._start(host, WORKER, *resources, "--work-dir", f"{FOLDER}/work", self.url)
        self.workers = [w for w in self.workers if w.host is not host]
        self.workers.append(SparkWorker(host, process))
        return self.workers[-1]

    def _await_registration(self, worker: SparkWorker) -> None:
        worker.process.wait_for("Successfully registered with master", patience=START_SECONDS)

    def _start(self, host: Host, main_class: str, *arguments: str) -> HostProcess:
        host.put(f"{FOLDER}/log4j2.properties", LOG4J)
        home = spark_home()
        return host.start(
            [
                *(str(home / "bin" / "spark-class"), main_class),
                *("--host", host.name, "--webui-port", "0", *arguments),
            ],
            env={
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_DIRS": f"{FOLDER}/local",
                "SPARK_DAEMON_MEMORY": "512m",
                "SPARK_DAEMON_JAVA_OPTS": (
                    f"-Dlog4j2.configurationFile={FOLDER}/log4j2.properties {_JAVA_OPTIONS}"
                ),
                "PYSPARK_PYTHON": sys.executable,
                **self._env,
            },
            log=f"{main_class.rpartition('.')[2].lower()}.log",
        )
