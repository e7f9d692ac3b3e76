"""W4 for Structured Streaming: its driver is killed and restarted at once by a supervisor.

With `--serve` it is the driver: the query of W1 over a folder that grows, without end. Without, it
is the supervisor and takes the time. Output counts when the sink's log names it: what lies in the
folder beside that is not part of the answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

from bench import machine
from bench.child import Task, parse, report
from bench.peers.structured_streaming import session, source, start
from bench.recovery import Feeder, measured, result

SERVE = "HEADGATE_BENCH_SERVE"
SECONDS_MAX = 3_600


class Supervisor:
    """Keeps one driver alive."""

    def __init__(self, task: Task, log: Path) -> None:
        self._task = task
        self._log = log
        self._driver = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", __spec__.name, *self._task.arguments()],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {SERVE: "1"},
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.wait()

    def kill_and_restart(self) -> None:
        self.kill()
        self._driver = self._start()


def published(output: Path) -> list[Path]:
    """Return the files that the sink's log names. From time to time it repeats all before."""
    found: dict[Path, None] = {}
    for entry in sorted((output / "_spark_metadata").glob("[0-9]*")):
        for line in entry.read_text().splitlines()[1:]:
            found[Path(unquote(urlparse(json.loads(line)["path"]).path))] = None
    return list(found)


def serve(task: Task) -> None:
    spark = session(task)
    query = start(task, source(spark, task), growing=True)
    query.awaitTermination(SECONDS_MAX)


def main() -> None:
    serving = SERVE in os.environ
    task = parse(__doc__, fresh=not serving)
    if serving:
        serve(task)
        return
    load_before = machine.load_average()
    feeder = Feeder(task.files(), task.work / "feed" / "files")
    supervisor = Supervisor(replace(task, folder=feeder.folder), task.work / "driver.log")
    try:
        seconds, checked = measured(
            feeder, lambda: published(task.output), supervisor.kill_and_restart
        )
    finally:
        supervisor.kill()
    report(task, result(task, "Structured Streaming", seconds, checked, {}), load_before)


if __name__ == "__main__":
    main()
