"""What a person sees of `headgate run`, and how it ends: the real command, a worker that counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.worker import WORKER

SQL = """
CREATE TABLE {table} (id BIGINT) WITH (
    connector = 'single_file', path = '{root}/in.json', format = 'json', type = 'source');
CREATE TABLE counted (id BIGINT) WITH (
    connector = 'filesystem', path = '{root}/out', format = 'json', type = 'sink');
INSERT INTO counted SELECT id FROM {table};
"""


WAIT_SECONDS = 240.0
RUN = (sys.executable, "-m", "headgate", "run", "my_totals.sql", "--state-dir", "state")


class Command:
    """`headgate run` in a folder; what it says is read as it comes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*RUN, *arguments],
            cwd=folder,
            env={**os.environ, "COLUMNS": "300"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self._changed = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.said += line
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._over or text in self.said, WAIT_SECONDS)
            assert text in self.said, self.said

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        try:
            code = self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it does not end: {self.said}") from None
        self._reader.join(30)
        assert "Traceback" not in self.said, self.said
        return code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.json").write_text('{"id": 1}\n')
    return tmp_path


def pipeline(folder: Path, *worker: str, table: str = "numbers") -> None:
    (folder / "my_totals.sql").write_text(SQL.format(root=folder, table=table))
    command = json.dumps(list(worker or (sys.executable, str(WORKER))))
    (folder / "headgate.toml").write_text(
        f'[controller]\nworker_command = {command}\n[job]\nbackoff_max = "1h"\n'
    )


def events(command: Command) -> list[dict[str, object]]:
    return [json.loads(line) for line in command.said.splitlines() if line.startswith("{")]


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "state").iterdir() if not p.name.startswith("."))


def test_finished_job_says_so_and_begins_anew_only_when_it_is_told_to(folder: Path) -> None:
    pipeline(folder)
    first = Command(folder)
    assert first.end() == 0, first.said
    assert "my_totals: finished, epoch " in first.said
    assert names(folder) == ["my_totals"]
    again = Command(folder)
    assert again.end() == 0, again.said
    assert "my_totals: finished at " in again.said
    assert "With --fresh it begins anew" in again.said
    assert "scheduling" not in again.said
    program = Command(folder, "--json")
    assert program.end() == 0
    (ended,) = events(program)
    assert (ended["event"], ended["already"], ended["state"]) == ("Ended", True, "finished")
    fresh = Command(folder, "--fresh", "--json")
    assert fresh.end() == 0, fresh.said
    (old,) = (name for name in names(folder) if name != "my_totals")
    assert old.startswith("my_totals.old-")
    said = events(fresh)
    assert any(old in str(event.get("text")) for event in said)
    assert any("what was published stays" in str(event.get("text")) for event in said)
    # Its epochs go on, so that what it publishes is told from what was published.
    epoch = said[-1]["epoch"]
    assert isinstance(epoch, int)
    assert isinstance(ended["epoch"], int)
    assert (said[-1]["state"], epoch > ended["epoch"]) == ("finished", True)
    looked = subprocess.run(
        [sys.executable, "-m", "headgate", "checkpoints", "--state-dir", "state", "--job", old],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert looked.returncode == 0, looked.stderr
    # A fresh start of a job whose database is lost ignores what is in the store, too.
    for file in (folder / "state" / ".local").glob("jobs.db*"):
        file.unlink()
    lost = Command(folder, "--fresh", "--json")
    assert lost.end() == 0, lost.said
    assert not any(event.get("note_kind") == "ResumedNote" for event in events(lost))
    assert len(names(folder)) == 3


def test_fresh_start_does_not_write_into_a_file_of_the_old_life(folder: Path) -> None:
    pipeline(folder)
    text = (folder / "my_totals.sql").read_text()
    text = text.replace("'filesystem', path", "'single_file', path")
    (folder / "my_totals.sql").write_text(text)
    (folder / "out").write_text('{"id":1}\n')
    refused = Command(folder, "--fresh")
    assert refused.end() == 2
    assert "overwrite = true" in refused.said
    assert not any("my_totals" in name for name in names(folder))


def test_stopped_job_resumes_and_says_from_where(folder: Path) -> None:
    pipeline(folder, table="endless_numbers")
    first = Command(folder)
    first.wait_for("checkpoint 1 committed")
    first.interrupt()
    assert first.end() == 0, first.said
    assert "Ctrl-C again stops at once" in first.said
    assert "my_totals: stopped" in first.said
    second = Command(folder)
    second.wait_for("resuming from epoch")
    other = Command(folder)
    assert other.end() == 1
    assert f"is being run by process {second.process.pid} on " in other.said
    assert "its lease ends in" in other.said
    second.wait_for("running")
    second.interrupt()
    assert second.end() == 0, second.said


def test_second_interrupt_ends_a_job_whose_worker_does_not_answer(folder: Path) -> None:
    pipeline(folder, table="mute_numbers")
    job = Command(folder)
    job.wait_for("running")
    job.interrupt()
    job.wait_for("Ctrl-C again stops at once")
    job.interrupt()
    assert job.end() == 130, job.said
    assert "done again by the next run" in job.said


def test_interrupt_between_two_tries_ends_at_once_and_is_no_success(folder: Path) -> None:
    pipeline(folder, "false")
    job = Command(folder)
    job.wait_for("retry 7 of 20 in")
    job.interrupt()
    assert job.end() == 1, job.said
    assert "It was failing when it was stopped" in job.said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda f: (f / "in.json").unlink(), "there is no file", id="missing input"),
        pytest.param(
            lambda f: (f / "my_totals.sql").write_text("SELECT x FROM y;"), "y", id="wrong SQL"
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_started(
    folder: Path, change: Callable[[Path], object], said: str
) -> None:
    pipeline(folder)
    change(folder)
    refused = Command(folder)
    assert refused.end() == 2, refused.said
    assert said in refused.said
    assert "scheduling" not in refused.said
