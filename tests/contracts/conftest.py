"""Adapters under contract: an S3 API server of its own process, on loopback."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

_START_TRIES = 5
_START_SECONDS = 60


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start moto's S3 server, make a bucket `contracts`, and return its address."""
    log = tmp_path_factory.mktemp("moto") / "server.log"
    process, endpoint = _start_server(log)
    try:
        _request("PUT", f"{endpoint}/contracts")
        yield endpoint
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual variables, and none that a developer's machine may have set."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def _start_server(log: Path) -> tuple[subprocess.Popen[bytes], str]:
    for _ in range(_START_TRIES):
        port = _free_port()
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                stdout=output,
                stderr=output,
            )
        endpoint = f"http://127.0.0.1:{port}"
        if _answers(process, endpoint):
            return process, endpoint
        # The port may have been taken between our look and its bind.
        process.kill()
        process.wait(timeout=30)
    raise RuntimeError(f"the S3 server does not start:\n{log.read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(process: subprocess.Popen[bytes], endpoint: str) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _request("GET", endpoint)
            return True
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    return False


def _request(method: str, url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        answer.read()
