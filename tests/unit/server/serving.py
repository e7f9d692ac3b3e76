"""A real service on a real socket, with workers that need no Spark."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from headgate.config import Config, ControllerConfig, JobConfig, ServerConfig
from headgate.server.listen import HeadgateServer, bind, build_service, url_of
from headgate.server.previews import Previews
from headgate.server.service import Service
from tests.support.waiting import eventually
from tests.support.warm_host import start_without_spark
from tests.support.worker import WORKER

PATIENCE_SECONDS = 120.0

SQL = """
CREATE TABLE {source} (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', event_rate = '100');
CREATE TABLE out (counter BIGINT)
WITH (connector = 'filesystem', path = '{out}', format = 'json', type = 'sink');
INSERT INTO out SELECT counter FROM {source};
"""


def sql(folder: Path, source: str = "numbers") -> str:
    """Return the text of a pipeline; the source's name says how the worker behaves."""
    return SQL.format(source=source, out=folder / "out")


def service_config(folder: Path, **server: Any) -> Config:
    return Config(
        state_url=str(folder / "state"),
        server=ServerConfig(port=0, **server),
        controller=ControllerConfig(
            data_dir=str(folder / "data"),
            lease_ttl="3s",
            worker_command=(sys.executable, str(WORKER)),
        ),
        job=JobConfig(
            parallelism=2, checkpoint_interval="100ms", heartbeat_interval="100ms", backoff_max="1s"
        ),
    )


@dataclass
class Running:
    """A service that answers."""

    service: Service
    url: str
    client: httpx.Client
    folder: Path

    def get(self, path: str, **arguments: Any) -> Any:
        answer = self.client.get(path, **arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, *, status: int = 202) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def start(self, source: str = "numbers", **fields: Any) -> str:
        """Start a job of a new text; return its id."""
        body = {"pipeline": source, "sql": sql(self.folder, source), **fields}
        return str(self.post("/api/v1/jobs", body, status=201)["job"])

    def wait(self, job: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first view of the job that meets the condition."""
        seen: dict[str, Any] = {}

        def met() -> bool:
            nonlocal seen
            seen = self.get(f"/api/v1/jobs/{job}")
            return condition(seen)

        assert eventually(met), seen
        return seen

    def wait_for_state(self, job: str, state: str) -> dict[str, Any]:
        return self.wait(job, lambda view: view["state"] == state)


@contextmanager
def serving(
    folder: Path, config: Config | None = None, *, token: str | None = None
) -> Iterator[Running]:
    """Run a service in this process until the block ends."""
    config = config or service_config(folder, token=token)
    service = build_service(config)
    service.previews = Previews(start_without_spark, service.clock)
    listening = bind(config.server.host, config.server.port)
    ready = threading.Event()
    server = HeadgateServer(service, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_SECONDS)
    url = url_of(listening)
    headers = {} if config.server.token is None else {"Authorization": f"Bearer {token}"}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            yield Running(service, url, client, folder)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listening.close()


def published(folder: Path) -> list[tuple[int, int]]:
    """Return the published ranges, in epoch order, empty ones left out."""
    files = sorted((folder / "out").glob("*.json")) if (folder / "out").exists() else []
    ranges = [tuple(json.loads(file.read_text())) for file in files]
    return [(start, end) for start, end in ranges if start != end]


def is_exact(ranges: list[tuple[int, int]]) -> bool:
    """Whether the ranges follow each other from 0 on without gap or overlap."""
    ends = [0, *(end for _, end in ranges)]
    return all(start == end for (start, _), end in zip(ranges, ends, strict=False))
