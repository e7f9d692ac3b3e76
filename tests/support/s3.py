"""An S3 API server on loopback, and a proxy before it that misbehaves as it is told."""

from __future__ import annotations

import http.client
import http.server
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

START_TRIES = 5
START_SECONDS = 120


def start_s3_server(log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start moto's S3 server in a process of its own; return it and its address."""
    for _ in range(START_TRIES):
        port = free_port()
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


def s3_request(method: str, url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        answer.read()


def _answers(process: subprocess.Popen[bytes], endpoint: str) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            s3_request("GET", endpoint)
            return True
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    return False


# What a fault makes of a request: a status to answer with instead, or None = let it pass.
Fault = Callable[[str], int | None]


def healthy(method: str) -> int | None:
    return None


def read_only(method: str) -> int | None:
    """Who may only read is told so."""
    return 403 if method in ("PUT", "POST", "DELETE") else None


def full(method: str) -> int | None:
    """No place for anything new; deleting still works."""
    return 507 if method in ("PUT", "POST") else None


def slow(seconds: float) -> Fault:
    def fault(method: str) -> int | None:
        time.sleep(seconds)
        return None

    return fault


def flaky(one_in: int, seed: int) -> Fault:
    """Of the requests, one in so many fails."""
    chance = random.Random(seed)

    def fault(method: str) -> int | None:
        return 503 if chance.randrange(one_in) == 0 else None

    return fault


class FaultyProxy(http.server.ThreadingHTTPServer):
    """Forwards to the S3 server, unless the current fault says otherwise."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target.removeprefix("http://")
        self.fault: Fault = healthy
        # Headers of requests that are lost on the way.
        self.dropped: frozenset[str] = frozenset()
        self.requests = 0
        self.refused = 0
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self._thread.join(timeout=30)
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FaultyProxy
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests += 1
        status = self.server.fault(self.command)
        if status is not None:
            self.server.refused += 1
            self._answer(status, [], _explained(status))
            return
        target = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in self.server.dropped
            }
            target.request(self.command, self.path, body, headers)
            answer = target.getresponse()
            self._answer(answer.status, answer.getheaders(), answer.read())
        finally:
            target.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        length = dict(headers).get("Content-Length", str(len(data)))
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: pytest shows what matters."""


def _explained(status: int) -> bytes:
    """Return the body that S3 gives with a refusal."""
    code = {403: "AccessDenied", 507: "InsufficientStorage"}.get(status, "SlowDown")
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
