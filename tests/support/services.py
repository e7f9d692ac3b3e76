"""`headgate serve` as a real process, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import WORKER as REAL_WORKER
from tests.support.processes import descendants, is_worker

PATIENCE_SECONDS = 240.0


class ServiceProcess:
    """One life of a service."""

    def __init__(self, folder: Path, prefix: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "headgate", "serve", "--json"],
            stdout=subprocess.PIPE,
            stderr=(folder / "service.log").open("ab"),
            text=True,
            cwd=folder,
            env={**os.environ, "HEADGATE_FAILPOINTS": ""},
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said, (folder / "service.log").read_text()
        self.url = str(json.loads(said)["url"])
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def get(self, path: str) -> Any:
        answer = self.client.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, pipeline: str, text: str) -> str:
        answer = self.client.post("/api/v1/jobs", json={"pipeline": pipeline, "sql": text})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job"])

    def wait(self, job: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            view: dict[str, Any] = self.get(f"/jobs/{job}")
            if condition(view):
                return view
            assert time.monotonic() < deadline, view
            time.sleep(0.1)

    def workers(self, program: str = REAL_WORKER) -> list[int]:
        """Return the workers below the service that run a program."""
        return [pid for pid in descendants(self.process.pid) if is_worker(pid, program)]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.client.close()
        return code


@contextlib.contextmanager
def service(folder: Path, prefix: Sequence[str] = ()) -> Iterator[ServiceProcess]:
    """Run a service with the settings in the folder; `prefix` is a command that starts others."""
    running = ServiceProcess(folder, prefix)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            # One that a test has stopped could not be waited for.
            running.process.send_signal(signal.SIGCONT)
            running.end(signal.SIGKILL)


def gone(processes: list[int]) -> bool:
    """Whether all have ended, after a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(Path(f"/proc/{pid}").exists() for pid in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
