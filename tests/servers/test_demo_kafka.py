"""`make demo-kafka` with few orders: everything is killed once, the output is exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import marked
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
MARK = "DEMO_TEST"
TIMEOUT_SECONDS = 500


@contextmanager
def started(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program of this repository; in the end none of its processes may be left."""
    value = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, MARK: value},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=TIMEOUT_SECONDS)
    assert eventually(lambda: not marked(f"{MARK}={value}")), "processes are left"


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what it prints up to the line with this text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"ended without {text!r}:\n{''.join(lines)}")


def test_the_demo_is_exact(tmp_path: Path) -> None:
    options = ("--folder", str(tmp_path / "demo"), "--per-second", "500")
    with started("examples.kafka_postgres", *options) as demo:
        said, _ = demo.communicate(timeout=TIMEOUT_SECONDS)
    assert demo.returncode == 0, said
    assert "exact" in said.splitlines(), said


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    with started("examples.kafka_postgres", "--folder", str(tmp_path / "demo")) as demo:
        read_until(demo, "worker ready")
        demo.send_signal(signal.SIGINT)
        said, _ = demo.communicate(timeout=TIMEOUT_SECONDS)
    assert demo.returncode == 130, said
    assert "interrupted" in said


def test_servers_stay_until_they_are_ended() -> None:
    with started("tests.support.servers", "--topic", "orders", "--partitions", "3") as servers:
        said = read_until(servers, "Ctrl-C")
        assert "bootstrap_servers = '127.0.0.1:" in said
        assert "url = 'postgresql://tester@127.0.0.1:" in said
        servers.send_signal(signal.SIGINT)
        servers.communicate(timeout=TIMEOUT_SECONDS)
    assert servers.returncode == 0
