"""A real Postgres server for tests: a temporary cluster on loopback, gone with its folder.

The fixture `postgres_url` (in `tests/conftest.py`) is a server for all tests of a session;
`PostgresServer` is one of a test's own, which it may stop and start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.support.ports import free_port
from tests.support.processes import descendants

START_TIMEOUT_SECONDS = 60.0


def find_binaries() -> Path | None:
    """Return the folder with `initdb` and `postgres`; None = not installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        installed.append(Path(on_path).resolve().parent)
    for folder in installed:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


class PostgresServer:
    """A server with its data in `folder`. `url` is that of an empty database."""

    def __init__(self, folder: Path) -> None:
        binaries = find_binaries()
        if binaries is None:
            raise RuntimeError("no Postgres server is installed here: run `make servers`")
        self._binaries = binaries
        self._folder = folder
        self._prefix = _unprivileged(folder)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://tester@127.0.0.1:{self._port}/postgres"
        subprocess.run(
            [
                *(*self._prefix, f"{binaries}/initdb", "-D", f"{folder}/data"),
                *("-U", "tester", "-A", "trust", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
        )

    def start(self) -> None:
        log = self._folder / "postgres.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *self._prefix,
                    *(f"{self._binaries}/postgres", "-D", f"{self._folder}/data"),
                    *("-p", str(self._port), "-k", f"{self._folder}"),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        _wait(self._binaries, self._port, self._process, log)

    def require_passwords(self) -> None:
        """From the next start on nobody connects without one."""
        (self._folder / "data" / "pg_hba.conf").write_text(
            "host all all 127.0.0.1/32 scram-sha-256\n"
        )

    def freeze(self) -> None:
        """Let it answer nobody, as if the network were gone, until `thaw`."""
        assert self._process is not None
        # The one that makes the others first, so that there are no new ones.
        for pid in (self._process.pid, *descendants(self._process.pid)):
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        for pid in (self._process.pid, *descendants(self._process.pid)):
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it as if its machine had lost its power; `start` brings it back."""
        if self._process is not None:
            self.thaw()
            # An "immediate shutdown".
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=START_TIMEOUT_SECONDS)
            self._process = None


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server of its own, until the end of the block.

    Its folder is not among those of pytest: they are for their owner alone, every pytest that
    starts sees to that again, and the server has another user than root.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-postgres-") as folder:
        server = PostgresServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def _signal(pid: int, number: signal.Signals) -> None:
    # A session ends when it wants to.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _unprivileged(folder: Path) -> list[str]:
    """Return the command that drops root's rights, which Postgres insists on; [] = not root."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return [
        "setpriv",
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
    ]


def _wait(binaries: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    ready = [f"{binaries}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"postgres did not start: {log.read_text()}")
        time.sleep(0.05)


def create_database(server_url: str, key: str) -> str:
    """Create a database for whoever has this key, and return its URL."""
    name = f"t{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server_url.rpartition('/')[0]}/{name}"


@dataclass
class Schema:
    """A schema on a server, and a connection to look into it."""

    name: str
    # Names without a schema are found in this one.
    url: str
    connection: psycopg.Connection[tuple[Any, ...]]

    @classmethod
    def create(cls, url: str, key: str, connection: psycopg.Connection[tuple[Any, ...]]) -> Schema:
        name = f"s{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
        connection.execute(f"SET search_path = {name}; SET TimeZone = 'UTC'".encode())
        return cls(name, f"{url}?options=-csearch_path%3D{name}", connection)

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement, and return its rows if it has any."""
        cursor = self.connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []
