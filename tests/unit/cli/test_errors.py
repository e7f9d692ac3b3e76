"""What goes wrong on a command line is said in one line that names what to do, never as a trace."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.startup import QUERY
from tests.unit.server.serving import serving


def headgate(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the real command; return its exit code and what it complained about."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        cwd=folder,
        # Wide, so that a message is not folded into a box.
        env={**clean, "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "totals.sql").write_text(QUERY)
    # What is refused here is refused for something else than a missing input.
    (tmp_path / "orders.json").touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield str(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("line", "code", "remedy"),
    [
        ("pln totals.sql", 2, "Did you mean 'plan'"),
        ("plan totals.sql --jsn", 2, "Possible options: --json"),
        ("run", 2, "Missing argument 'file'"),
        ("run nofile.sql", 2, "cannot read the SQL file 'nofile.sql'"),
        ("run totals.sql --config no.toml", 2, "cannot read the settings in 'no.toml'"),
        ("run totals.sql --state-dir totals.sql", 2, "Name one that can be written to with"),
        ("run totals.sql --state-dir /proc/nowhere", 2, "Name one that can be written to with"),
        ("run totals.sql --state-dir ftp://x", 2, "give a path, file:///path, s3://bucket/prefix"),
        ("run totals.sql --checkpoint-interval soon", 2, "write for example 10s, 500ms or 2m"),
        ("serve --port 0 --database sqlite:////proc/no/x.db", 1, "named by --database"),
        ("serve --port 0 --database postgresql://127.0.0.1:1/x", 1, "Connection refused"),
        ("serve --port 0 --database oracle-of-delphi://x", 1, "postgresql://user@host/name"),
        ("serve --host 192.0.2.1 --token 0123456789abcdef", 1, "Name an address of this machine"),
        ("checkpoints --state-dir nowhere", 2, "name it with --state-dir"),
        ("checkpoints --state-dir empty", 2, "name another place with --state-dir"),
        ("inspect 1 --state-dir empty --job x", 2, "`headgate checkpoints --state-dir empty`"),
        ("jobs --url http://127.0.0.1:1", 1, "start one with `headgate serve`"),
        ("jobs --url 127.0.0.1:8642", 2, "write http://host:port"),
    ],
)
def test_message_says_what_to_do(folder: Path, line: str, code: int, remedy: str) -> None:
    ended, said = headgate(folder, *line.split())
    assert (ended, remedy in said) == (code, True), said


def test_taken_port_is_told_from_a_wrong_address(folder: Path, taken_port: str) -> None:
    ended, said = headgate(folder, "serve", "--port", taken_port)
    assert ended == 1
    assert f"cannot listen on 127.0.0.1:{taken_port}: Address already in use" in said
    assert "choose another port with --port" in said


def test_folder_that_may_not_be_written_to_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headgate.components import embedded_controller
    from headgate.core.errors import UserError

    # The superuser may write anywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UserError, match=r"Permission denied.*--state-dir"):
        embedded_controller(str(folder / "state"))


def test_service_that_wants_a_token_says_how_to_give_it(folder: Path) -> None:
    with serving(folder, token="correct horse battery staple") as running:
        for given in ((), ("--token", "something else entirely")):
            ended, said = headgate(folder, "jobs", "--url", running.url, *given)
            assert ended == 2
            assert "give it with --token or HEADGATE_TOKEN" in said


def test_password_of_a_database_is_not_shown(folder: Path) -> None:
    url = "postgresql://me:secret-word@127.0.0.1:1/x"
    _, said = headgate(folder, "serve", "--port", "0", "--database", url)
    assert "secret-word" not in said
