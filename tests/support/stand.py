"""A real service under test: started again whenever it dies, watched down to its last process.

Every process that comes of it (workers, their JVMs, Python daemons) inherits a mark in its
environment, so that one that is left behind is found wherever it has got to.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from headgate.core.failpoints import FOLDER_VARIABLE, REACHED
from tests.support.processes import WORKER, command_of, is_worker, marked

WAIT_SECONDS = 600.0
POLL_SECONDS = 0.1
TRIES_MAX = 50
MARK = "FAULT_STAND"


class Stand:
    """One folder with its settings, state and output, and the service over it."""

    def __init__(self, folder: Path, settings: str, *, state_url: str = "state") -> None:
        self.folder = folder
        self.state_url = state_url
        self.failpoints = folder / "failpoints"
        self.failpoints.mkdir(parents=True, exist_ok=True)
        self.mark = f"{MARK}={uuid.uuid4().hex}"
        self.deaths = 0
        self.job = ""
        (folder / "headgate.toml").write_text(
            f"state_url = '{state_url}'\n[server]\nport = 0\n{settings}\n"
        )
        self.process = self._start()

    # ---- the service -------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[str]:
        name, _, value = self.mark.partition("=")
        for _ in range(TRIES_MAX):
            process = subprocess.Popen(
                [sys.executable, "-m", "headgate", "serve", "--json"],
                stdout=subprocess.PIPE,
                stderr=(self.folder / "service.log").open("ab"),
                text=True,
                cwd=self.folder,
                env={**os.environ, name: value, FOLDER_VARIABLE: str(self.failpoints)},
            )
            assert process.stdout is not None
            said = process.stdout.readline()
            if said:
                self.client = httpx.Client(base_url=json.loads(said)["url"], timeout=60)
                return process
            # A failpoint may be waiting for whoever takes the job up.
            code = process.wait(timeout=60)
            assert code == -signal.SIGKILL, (self.folder / "service.log").read_text()[-4000:]
            self.deaths += 1
        raise AssertionError(f"the service died {TRIES_MAX} times in a row")

    def revive(self) -> None:
        """Start the service again if it was killed; any other end is an error."""
        code = self.process.poll()
        if code is None:
            return
        assert code == -signal.SIGKILL, f"the service ended with {code}: {self.log()}"
        self.deaths += 1
        self.client.close()
        self.process = self._start()

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask until the service answers: it may die in the middle of it.

        A command that may have been lost is given again: to be taken twice does it no harm.
        """
        for _ in range(TRIES_MAX):
            try:
                answer = self.client.request(method, f"/api/v1{path}", json=body)
            except httpx.TransportError:
                if self.process.poll() is None:
                    # The socket of a process that was killed closes a moment before it is dead.
                    time.sleep(POLL_SECONDS)
                self.revive()
                continue
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                assert answer.json()["code"] == "command_lost", answer.text
                time.sleep(POLL_SECONDS)
                continue
            assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
            return answer.json() if answer.content else None
        raise AssertionError(f"no answer to {method} {path}: {self.log()}")

    def kill_service(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)

    def close(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the service; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        self.client.close()
        return code

    def log(self) -> str:
        return (self.folder / "service.log").read_text()[-6000:]

    # ---- the job -----------------------------------------------------------------------------

    def start_job(self, sql: str, **settings: Any) -> None:
        wanted = {"pipeline": "faults", "sql": sql, **settings}
        self.job = str(self.request("POST", "/jobs", wanted)["job"])

    def view(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request("GET", f"/jobs/{self.job}")
        return found

    def tell(self, command: str, **body: Any) -> None:
        self.request("POST", f"/jobs/{self.job}/{command}", body)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for something, keeping the service alive meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {WAIT_SECONDS} s: {self.story()}")
            self.revive()
            time.sleep(POLL_SECONDS)

    def wait_for_state(self, *states: str) -> None:
        self.wait(f"one of {states}", lambda: self.view()["state"] in states)

    def wait_for_commits(self, count: int = 1) -> None:
        """Wait until so many more epochs are published."""
        wanted = self.view()["committed_epoch"] + count
        self.wait(f"epoch {wanted}", lambda: self.view()["committed_epoch"] >= wanted)

    def story(self) -> str:
        view = {k: v for k, v in self.view().items() if k not in ("sql", "progress")}
        history = self.request("GET", f"/jobs/{self.job}/errors?limit=5")
        return json.dumps({"job": view, "errors": history}, indent=1)[-6000:] + self.log()

    # ---- failpoints --------------------------------------------------------------------------

    def arm(self, point: str, action: str) -> None:
        (self.failpoints / f"{point}{REACHED}").unlink(missing_ok=True)
        draft = self.failpoints / f"{point}.draft"
        draft.write_text(action)
        # All at once: somebody may pass just now.
        draft.rename(self.failpoints / point)

    def wait_until_reached(self, point: str) -> None:
        self.wait(f"{point} reached", (self.failpoints / f"{point}{REACHED}").exists)

    # ---- processes ---------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """Return every living process that came of this stand, the services included."""
        return marked(self.mark)

    def workers(self) -> list[int]:
        return [pid for pid in self.processes() if is_worker(pid)]

    def jvms(self) -> list[int]:
        return [pid for pid in self.processes() if "/java" in "".join(command_of(pid)[:1])]

    def python_workers(self) -> list[int]:
        """Return the Spark daemons and the Python workers that they have forked."""
        marks = {"pyspark.worker", WORKER}
        others = (pid for pid in self.processes() if not is_worker(pid))
        return [pid for pid in others if not marks.isdisjoint(command_of(pid))]

    def wait_until_gone(self) -> None:
        """Wait until no process is left of what this stand has started."""
        deadline = time.monotonic() + WAIT_SECONDS
        while left := self.processes():
            if time.monotonic() > deadline:
                shown = {pid: " ".join(command_of(pid))[:300] for pid in left}
                raise AssertionError(f"still running: {shown}")
            time.sleep(POLL_SECONDS)

    # ---- what is left ------------------------------------------------------------------------

    def doctor(self) -> dict[str, Any]:
        """Return what `headgate doctor` says about the job; it must find it healthy."""
        options = ("--json", "--state-dir", self.state_url, "--job", self.job)
        answer = subprocess.run(
            [sys.executable, "-m", "headgate", "doctor", *options],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            cwd=self.folder,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        found: dict[str, Any] = json.loads(answer.stdout)
        return found

    def leftovers(self) -> list[Path]:
        """Return the scratch files that nobody needs any more."""
        scratch = self.folder.rglob("scratch/**/*")
        return [path for path in scratch if path.is_file()]
