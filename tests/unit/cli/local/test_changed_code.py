"""The user's code behind a state changes: said, or refused at once with the column."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.server.serving import WORKER

SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', event_rate = '100');
CREATE TABLE quiet (counter BIGINT, n BIGINT) WITH (
  process = 'quiet.py:Quiet', input = numbers, keys = [counter]);
CREATE TABLE out (counter BIGINT)
WITH (connector = 'filesystem', path = 'out', format = 'json', type = 'sink');
INSERT INTO out SELECT half(counter) FROM quiet;
"""
QUIET = """
import pyarrow as pa
from headgate.process import ProcessOperator

class Quiet(ProcessOperator):
    state_schema = pa.schema([("n", pa.int64())])
"""
HALF = "@udf\ndef half(x: int) -> int:\n    return x // 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.sql").write_text(SQL)
    (tmp_path / "quiet.py").write_text(QUIET)
    (tmp_path / "job.py").write_text(HALF)
    first = headgate(tmp_path, "run")
    assert first.returncode == 0, first.stderr
    return tmp_path


def headgate(folder: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real command, with a worker that needs no Spark."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", command, "job.sql", "--state-dir", "state", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "HEADGATE_CONTROLLER_WORKER_COMMAND": json.dumps([sys.executable, str(WORKER)]),
            "HEADGATE_JOB_CHECKPOINT_INTERVAL": "100ms",
            "HEADGATE_JOB_PARALLELISM": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_other_code_is_told_and_another_state_schema_is_refused_at_once(folder: Path) -> None:
    same = headgate(folder, "plan")
    assert same.returncode == 0, same.stderr
    assert "would resume from epoch" in same.stdout
    assert "changed" not in same.stdout.partition("would resume")[2]

    (folder / "job.py").write_text(HALF.replace("x // 2", "x // 3"))
    planned = headgate(folder, "plan")
    assert planned.returncode == 0
    assert "the code of half changed since epoch" in planned.stdout
    assert "state made with the old code is kept" in planned.stdout

    (folder / "quiet.py").write_text(QUIET.replace("pa.int64()", "pa.float64()"))
    for command in ("plan", "run"):
        refused = headgate(folder, command)
        assert refused.returncode == 2
        said = " ".join(refused.stderr.split())
        assert "state_schema of Quiet changed: 'n' was int64 and is now double" in said
        (option,) = [
            word for word in said.split() if word.startswith("process-") and ":" not in word
        ]
        assert f"--allow-drop-state {option}" in said
        # It is not tried again, and no worker has started for it.
        assert "scheduling" not in said
        assert "running" not in said
    mistyped = headgate(folder, "run", "--allow-drop-state", option[:-1])
    assert mistyped.returncode == 2
    assert f"did you mean {option}?" in " ".join(mistyped.stderr.split())

    allowed = headgate(folder, "plan", "--allow-drop-state", option)
    assert allowed.returncode == 0
    assert f"these start empty: {option}" in allowed.stdout
    run = headgate(folder, "run", "--allow-drop-state", option)
    assert run.returncode == 0, run.stderr
    # Standard output is for rows.
    assert "the code of half changed since epoch" in " ".join(run.stderr.split())
    # The same command is no mistake the next time, although what it names is dropped by now.
    again = headgate(folder, "run", "--allow-drop-state", option)
    assert again.returncode == 0, again.stderr


def test_a_mistyped_operator_is_refused_before_there_is_any_state(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(SQL)
    (tmp_path / "quiet.py").write_text(QUIET)
    (tmp_path / "job.py").write_text(HALF)
    refused = headgate(tmp_path, "run", "--allow-drop-state", "source-nmubers")
    assert refused.returncode == 2
    assert "did you mean source-numbers?" in " ".join(refused.stderr.split())
