"""A real Spark standalone cluster on loopback: a Master and Workers, from the PySpark package."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tests.support.processes import descendants

WAIT_SECONDS = 120.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
# Both say on standard error what happens to them.
LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %m%n
"""


class SparkCluster:
    """Starts with one Worker of one core per `workers`; everything ends with `close`."""

    def __init__(self, root: Path, workers: int) -> None:
        self._root = root
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: dict[int, Path] = {}
        master = self._start("master", MASTER, "--port", "0")
        self.url = self._find(master, r"Starting Spark master at (spark://\S+)")[0]
        self.workers = [self._start_worker(number) for number in range(workers)]
        self._master = master
        self._find(master, r"Registering worker", count=workers)

    def add_worker(self, host: str, environment: Mapping[str, str | None]) -> None:
        """Start one more Worker, as another address of this machine, and wait until it is known.

        Its executors have its environment; None takes a variable away.
        """
        self.workers.append(self._start_worker(len(self.workers), host, environment))
        self._find(self._master, r"Registering worker", count=len(self.workers))

    def files(self, prefix: str) -> list[Path]:
        """Return the files that executors keep: `shuffle_`, `broadcast_`, ..."""
        found: list[Path] = []
        # Folders come and go with executors.
        for folder, _, names in os.walk(self._root / "local"):
            found += [Path(folder) / name for name in names if name.startswith(prefix)]
        return found

    def kill_worker(self, number: int) -> None:
        """SIGKILL one Worker and the executors it started, as when a host goes down."""
        worker = self.workers[number]
        for pid in [*descendants(worker.pid), worker.pid]:
            os.kill(pid, signal.SIGKILL)
        worker.wait(timeout=30)

    def close(self) -> None:
        for process in reversed(self._processes):
            for pid in descendants(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait(timeout=30)

    def _start_worker(
        self,
        number: int,
        host: str = "127.0.0.1",
        environment: Mapping[str, str | None] | None = None,
    ) -> subprocess.Popen[bytes]:
        name = f"worker-{number}"
        return self._start(
            name,
            WORKER,
            *("--cores", "1", "--memory", "1g", "--work-dir", str(self._root / name), self.url),
            host=host,
            changed=environment,
        )

    def _start(
        self,
        name: str,
        main_class: str,
        *arguments: str,
        host: str = "127.0.0.1",
        changed: Mapping[str, str | None] | None = None,
    ) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        log = self._root / f"{name}.log"
        log4j = self._root / "log4j2.properties"
        log4j.write_text(LOG4J)
        environment: dict[str, str | None] = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self._root / "local"),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={log4j}",
            "PYSPARK_PYTHON": sys.executable,
            **(changed or {}),
        }
        options = ("--host", host, "--webui-port", "0")
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), main_class, *options, *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={key: value for key, value in environment.items() if value is not None},
                start_new_session=True,
            )
        self._processes.append(process)
        self._logs[process.pid] = log
        return process

    def _find(self, process: subprocess.Popen[bytes], pattern: str, count: int = 1) -> list[str]:
        """Wait until the log of a process has `count` matches; return them."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            text = self._logs[process.pid].read_text(errors="replace")
            found = re.findall(pattern, text)
            if len(found) >= count:
                return found
            assert process.poll() is None, text
            time.sleep(0.1)  # a bounded wait for the line to appear
        raise AssertionError(f"no '{pattern}' in {self._logs[process.pid]}:\n{text}")
