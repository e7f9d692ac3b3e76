"""A disk that is full, for real: one line that says so, and the job goes on when there is space."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.errors import StorageError
from headgate.core.space import NO_SPACE
from headgate.engine.jvm.gateway import StartingJvm
from tests.support.cli import HeadgateProcess

ROWS = 4_000
SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', event_rate = '200', message_count = '{rows}');
CREATE TABLE out (counter BIGINT)
WITH (connector = 'single_file', path = '{out}', format = 'json', type = 'sink');
INSERT INTO out SELECT counter FROM numbers;
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be filled without harm to anybody."""
    if os.geteuid() != 0:
        pytest.skip("to mount a small file system one has to be root")
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(where)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        # Lazily: a worker that has just been ended may still have a file open.
        subprocess.run(["umount", "-l", str(where)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space there is."""
    ballast = disk / "ballast"
    piece = b"\0" * (64 << 10)
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(piece)
        except OSError:
            return ballast


def test_jvm_that_starts_on_a_full_disk_says_so_at_once(small_disk: Path, tmp_path: Path) -> None:
    fill(small_disk)
    jvm = StartingJvm({}, str(small_disk / "scratch"), {}, tmp_path / "jvm.log")
    with pytest.raises(StorageError, match=f"no space left on device: {small_disk}") as raised:
        jvm.connect()
    assert raised.value.code == NO_SPACE


@pytest.mark.timeout(900)
def test_full_disk_is_told_in_one_line_and_the_job_goes_on_exactly_by_itself(
    small_disk: Path, tmp_path: Path
) -> None:
    out, sql = tmp_path / "out.json", tmp_path / "numbers.sql"
    sql.write_text(SQL.format(rows=ROWS, out=out))
    run = HeadgateProcess(
        "run",
        str(sql),
        "--state-dir",
        str(small_disk / "state"),
        "--checkpoint-interval",
        "500ms",
        "--parallelism",
        "1",
    )
    try:
        run.wait_for("CheckpointNote", 2)
        ballast = fill(small_disk)
        told = run.wait_for("WaitNote")
        assert told["waiting_for"].startswith(f"no space left on device: {small_disk}"), told
        assert "waiting: free some space, it goes on by itself" in told["waiting_for"]
        # Whatever is tried meanwhile fails as well, and ends nothing.
        assert not run.has_ended(within_seconds=20)
        ballast.unlink()
        run.wait_for("WaitNote", waiting_for="")
        assert run.finish() == 0, run.story()
    finally:
        if run.process.poll() is None:
            run.kill()
    rows = [json.loads(line)["counter"] for line in out.read_text().splitlines()]
    assert sorted(rows) == list(range(ROWS))
    said = run.errors()
    assert not any("Traceback" in line for line in said), said
    lines = [line for line in said if "no space left" in line or "database" in line]
    assert 1 <= len(lines) <= 4, said
