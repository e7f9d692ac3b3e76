"""Starts Spark's JVM and connects to it later: in between there is time to import the rest."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from headgate.core.errors import HeadgateError, InternalError, StorageError, UserError
from headgate.core.space import NO_SPACE, no_space
from headgate.engine.jvm.java import java_problem

POLL_SECONDS = 0.01
# As long as a controller waits for a worker by default.
START_SECONDS_MAX = 600.0
# A JVM that was told to end and does not is killed after this time.
END_SECONDS_MAX = 10.0
# Without it a JVM that cannot write its answer, because the folder is gone by then or the disk is
# full, fails in one thread and lives on in the others, for ever and also after this process.
_ENDS_WITH_MAIN = {"spark.submit.callSystemExitOnMainExit": "true"}
# What a JVM must be able to write to be found.
ROOM_BYTES = 4096
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class StartingJvm:
    """A JVM that was told to start. It ends when its standard input does, so with this process."""

    def __init__(
        self,
        conf: dict[str, str],
        folder: str,
        variables: dict[str, str],
        log: Path | None = None,
    ) -> None:
        """With `log`, what the JVM and its Python workers print goes there."""
        os.makedirs(folder, exist_ok=True)
        self._answer = Path(tempfile.mkdtemp(prefix="jvm-", dir=folder)) / "connection"
        environment = {
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer),
        }
        given = {**conf, **_ENDS_WITH_MAIN}
        settings = [word for key, value in given.items() for word in ("--conf", f"{key}={value}")]
        command = os.path.join(_find_spark_home(), "bin", "spark-submit")
        with ExitStack() as opened:
            printed = None if log is None else opened.enter_context(log.open("ab"))
            self._process = subprocess.Popen(
                [command, *settings, "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                env=os.environ | variables | environment,
                # Ctrl-C is meant for whoever sits at the terminal: they end the session in order.
                start_new_session=log is not None,
            )

    @property
    def life_line(self) -> int:
        """The descriptor with whose closing the JVM ends."""
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def connect(self) -> None:
        """Wait until it listens, and let PySpark use it instead of starting its own."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answer.exists():
            if self._process.poll() is not None:
                raise _failed_start(self._process.returncode, self._answer.parent)
            if time.monotonic() > deadline:
                raise InternalError(
                    "the JVM of the Spark driver has not answered within "
                    f"{START_SECONDS_MAX:.0f} s of its start",
                    code="jvm_start",
                )
            time.sleep(POLL_SECONDS)
        # Two numbers of four bytes, the port and the length of the secret, then the secret.
        answer = self._answer.read_bytes()
        port, _ = struct.unpack(">ii", answer[:8])
        os.environ |= {PORT: str(port), SECRET: answer[8:].decode()}
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ[PORT], os.environ[SECRET]
        gateway.proc = self._process
        SparkContext._ensure_initialized(gateway=gateway)

    def end(self) -> None:
        """Let the JVM end, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once: what it has left lies in the folder it was given."""
        self._process.kill()
        self._process.wait()


def _failed_start(code: int, folder: Path) -> HeadgateError:
    problem = java_problem()
    if problem is not None:
        return UserError(problem, code="java")
    if _is_full(folder):
        return StorageError(no_space(folder), code=NO_SPACE)
    return InternalError(
        f"the JVM of the Spark driver ended with exit code {code} while it started: "
        "the worker's log says why",
        code="jvm_start",
    )


def _is_full(folder: Path) -> bool:
    """Whether there is no room for the JVM's answer. Its log may lie on the same device."""
    try:
        return shutil.disk_usage(folder).free < ROOM_BYTES
    except FileNotFoundError:
        return False
