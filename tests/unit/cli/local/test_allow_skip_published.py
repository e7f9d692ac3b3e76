"""A damaged epoch is skipped by `headgate run` only if a person allows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.server.serving import WORKER, sql


@pytest.fixture
def query(tmp_path: Path) -> Path:
    file = tmp_path / "numbers.sql"
    file.write_text(sql(tmp_path, "numbers"))
    return file


def headgate(query: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real command, with a worker that needs no Spark."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", *arguments, str(query), "--state-dir", "state"],
        cwd=query.parent,
        env={
            **os.environ,
            "HEADGATE_CONTROLLER_WORKER_COMMAND": json.dumps([sys.executable, str(WORKER)]),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def forget_jobs(state: Path) -> None:
    for file in (state / ".local").glob("jobs.db*"):
        file.unlink()


def test_damaged_epoch_is_skipped_only_if_it_is_allowed(query: Path) -> None:
    first = headgate(query, "run", "--checkpoint-interval", "100ms")
    assert first.returncode == 0, first.stderr
    # Of a job that is finished nothing is asked of the store: only the store knows of this one.
    forget_jobs(query.parent / "state")
    manifests = sorted((query.parent / "state").glob("numbers/generations/*/**/manifest.json"))
    manifests[-1].write_text("{")
    for command in ("run", "plan"):
        refused = headgate(query, command)
        assert refused.returncode == 1, refused.stdout
        said = " ".join(refused.stderr.split())
        assert "cannot be restored, rebuilt or published" in said
        assert "start the job with --allow-skip-published" in said
    assert "would resume" in headgate(query, "plan", "--allow-skip-published").stdout
    allowed = headgate(query, "run", "--allow-skip-published")
    assert allowed.returncode == 0, allowed.stderr
    assert "set aside" in allowed.stderr
    # What was skipped is behind the job now: it needs no permission any more.
    assert headgate(query, "run").returncode == 0
