"""`headgate serve` and `headgate node` as real processes on loopback, with workers that count."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import descendants, is_worker
from tests.support.waiting import eventually
from tests.support.worker import WORKER

PATIENCE_SECONDS = 120.0


def headgate(
    folder: Path, name: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a command in its own folder; what it says on standard error is in `NAME.log`."""
    return subprocess.Popen(
        [sys.executable, "-m", "headgate", *arguments],
        stdout=subprocess.PIPE,
        stderr=(folder / f"{name}.log").open("ab"),
        text=True,
        cwd=folder,
        env={**os.environ, "HEADGATE_FAILPOINTS": "", **(environment or {})},
    )


class _Process:
    """One process, and what is below it."""

    def __init__(self, folder: Path, name: str, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.name = name
        self.process = process

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()

    def workers(self, program: str = str(WORKER)) -> list[int]:
        return [pid for pid in descendants(self.process.pid) if is_worker(pid, program)]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            # One that is frozen dies of this, too.
            self.end(signal.SIGKILL)
        if self.process.stdout is not None:
            self.process.stdout.close()


class ServeProcess(_Process):
    """One life of a service."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        port: int = 0,
        token: str | None = None,
        ca: Path | None = None,
    ) -> None:
        environment = {} if token is None else {"HEADGATE_TOKEN": token}
        command = ("serve", "--json", "--port", str(port), *arguments)
        super().__init__(
            folder, "serve", headgate(folder, "serve", *command, environment=environment)
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said, self.log()
        self.url = str(json.loads(said)["url"])
        self.port = int(self.url.rpartition(":")[2])
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        verify: Any = True
        if ca is not None:
            verify = ssl.create_default_context(cafile=str(ca))
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=verify)

    def get(self, path: str) -> Any:
        answer = self.client.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, pipeline: str, text: str, **settings: Any) -> str:
        body = {"pipeline": pipeline, "sql": text, **settings}
        answer = self.client.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job"])

    def wait(self, job: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def met() -> bool:
            nonlocal seen
            seen = self.get(f"/jobs/{job}")
            return condition(seen)

        assert eventually(met, PATIENCE_SECONDS), (seen, self.log()[-3_000:])
        return seen

    def goes_on(self, job: str) -> None:
        """Wait until the job has committed further epochs."""
        epoch = self.get(f"/jobs/{job}")["committed_epoch"]
        self.wait(job, lambda view: view["committed_epoch"] > epoch + 1)

    def stop(self, job: str) -> None:
        assert self.client.post(f"/api/v1/jobs/{job}/stop").status_code == 202
        view = self.wait(job, lambda view: view["terminal"])
        assert view["state"] == "stopped", view

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.get("/nodes")}

    def wait_for_node(self, name: str, state: str = "connected") -> dict[str, Any]:
        def met() -> bool:
            return self.nodes().get(name, {}).get("state") == state

        assert eventually(met, PATIENCE_SECONDS), (self.nodes(), self.log()[-3_000:])
        return self.nodes()[name]


class NodeProcess(_Process):
    """One life of a node."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *urls: str,
        slots: int = 4,
        token: str | None = None,
        arguments: tuple[str, ...] = (),
        spark: bool = False,
    ) -> None:
        home = folder / f"node-{name}"
        home.mkdir(exist_ok=True)
        command = json.dumps([sys.executable, str(WORKER)])
        settings = "" if spark else f"[controller]\nworker_command = {command}\n"
        (home / "headgate.toml").write_text(settings)
        environment = {} if token is None else {"HEADGATE_TOKEN": token}
        joins = [part for url in urls for part in ("--join", url)]
        process = headgate(
            home,
            name,
            "node",
            *joins,
            *("--name", name),
            *("--slots", str(slots)),
            *("--data-dir", str(home / "data")),
            "--json",
            *arguments,
            environment=environment,
        )
        super().__init__(home, name, process)
        self.said: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))
