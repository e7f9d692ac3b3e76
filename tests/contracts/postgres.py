"""A real Postgres server for tests: a temporary cluster on loopback, gone with its folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

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


@contextlib.contextmanager
def postgres_server(binaries: Path, folder: Path) -> Iterator[str]:
    """Run a server with its data in `folder`; yields the URL of an empty database."""
    prefix = _unprivileged(folder)
    data, port = folder / "data", _free_port()
    subprocess.run(
        [*prefix, binaries / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    with (folder / "postgres.log").open("wb") as log:
        server = subprocess.Popen(
            [
                *prefix,
                *(binaries / "postgres", "-D", data, "-p", str(port)),
                *("-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        _wait(binaries, port, server, folder / "postgres.log")
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        # "Immediate shutdown": nothing in it is worth keeping.
        server.send_signal(signal.SIGQUIT)
        server.wait(timeout=START_TIMEOUT_SECONDS)


def _unprivileged(folder: Path) -> list[str]:
    """Return the command that drops root's rights, which Postgres insists on; [] = not root."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    for parent in folder.parents:
        # The temporary folders of the tests are root's own; the server must be able to pass.
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o011)
    return [
        "setpriv",
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(binaries: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"postgres did not start: {log.read_text()}")
        time.sleep(0.05)
