"""Another aggregate is named, with ways to go on that all can be gone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.worker import WORKER

TABLES = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', event_rate = '100');
CREATE TABLE out (n BIGINT, total BIGINT, top BIGINT)
WITH (connector = 'filesystem', path = '{folder}', format = '{format}', type = 'sink');
CREATE TABLE tops (top BIGINT)
WITH (connector = 'filesystem', path = 'tops', format = '{format}', type = 'sink');
"""
OLD = "SELECT {window} subtask_index, count(*) AS n, avg(counter * 2) AS total FROM numbers {group}"
NEW = "SELECT {window} subtask_index, max(counter) AS top FROM numbers {group}"
ADDED = OLD.replace(" FROM", ", max(counter) AS top FROM")
FEWER = OLD.replace(", avg(counter * 2) AS total", "")
WINDOWED = {
    "window": "tumble(INTERVAL '1' MINUTE) AS w,",
    "group": "GROUP BY w, subtask_index",
    "format": "json",
}
UPDATING = {"window": "", "group": "GROUP BY subtask_index", "format": "debezium_json"}


def text(kind: dict[str, str], *inserts: str, folder: str = "out") -> str:
    return "\n".join([TABLES, *(f"{insert};" for insert in inserts)]).format(folder=folder, **kind)


def insert(select: str, columns: str = "n, total, NULL", sink: str = "out") -> str:
    return f"INSERT INTO {sink} SELECT {columns} FROM ({select})"


def headgate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real command, with a worker that needs no Spark."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", *arguments, "--state-dir", "state"],
        cwd=folder,
        env={
            **os.environ,
            "COLUMNS": "1000",
            "HEADGATE_CONTROLLER_WORKER_COMMAND": json.dumps([sys.executable, str(WORKER)]),
            "HEADGATE_JOB_CHECKPOINT_INTERVAL": "100ms",
            "HEADGATE_JOB_PARALLELISM": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def plan(folder: Path, sql: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.sql").write_text(sql)
    return headgate(folder, "plan", "job.sql", *arguments)


def started(folder: Path, kind: dict[str, str]) -> Path:
    (folder / "job.sql").write_text(text(kind, insert(OLD)))
    first = headgate(folder, "run", "job.sql")
    assert first.returncode == 0, first.stderr
    return folder


@pytest.mark.parametrize("kind", [WINDOWED, UPDATING], ids=["window", "updating"])
def test_an_added_aggregate_is_named_and_every_choice_can_be_taken(
    tmp_path: Path, kind: dict[str, str]
) -> None:
    folder = started(tmp_path, kind)
    added = text(kind, insert(ADDED, "n, total, top"))
    (folder / "job.sql").write_text(added)
    for command in ("plan", "run"):
        refused = headgate(folder, command, "job.sql")
        assert refused.returncode == 2
        assert (
            "the aggregates changed: max(counter) added; count(*), avg(counter * 2) kept"
            in refused.stderr
        )
        assert "scheduling" not in refused.stderr
    said = refused.stderr
    option = said.rpartition("To drop it: ")[2].strip()
    assert f"2. drop it, {option}: " in said
    assert ("LEFT JOIN" in said) == (kind is WINDOWED)

    # The first way: a second query into a sink of its own, or of windows a join into the same.
    ways = [text(kind, insert(OLD), insert(NEW, "top", "tops"))]
    if kind is WINDOWED:
        columns = "a.n, a.total, b.top"
        on = f"({OLD}) a LEFT JOIN ({NEW}) b ON a.w = b.w AND a.subtask_index = b.subtask_index"
        ways.append(text(kind, f"INSERT INTO out SELECT {columns} FROM {on}"))
    for way in ways:
        kept = plan(folder, way)
        assert kept.returncode == 0, kept.stderr
        assert "would resume from epoch" in kept.stdout
        assert option.split()[1] not in kept.stdout.partition("start empty")[2]

    # The second.
    assert plan(folder, added, *option.split()).returncode == 0

    # The third, as its commands stand there.
    fork, _, rest = said.partition("3. run both")[2].partition(", and the changed text")
    done = headgate(folder, *shlex.split(fork.partition("headgate ")[2]))
    assert done.returncode == 0, done.stderr
    (folder / "next.sql").write_text(text(kind, insert(ADDED, "n, total, top"), folder="next"))
    line = rest.partition("headgate run FILE ")[2].splitlines()[0]
    run = headgate(folder, "run", "next.sql", *shlex.split(line))
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("kind", [WINDOWED, UPDATING], ids=["window", "updating"])
def test_a_removed_aggregate_may_stay_in_the_query_and_not_be_written(
    tmp_path: Path, kind: dict[str, str]
) -> None:
    folder = started(tmp_path, kind)
    refused = plan(folder, text(kind, insert(FEWER, "n, NULL, NULL")))
    assert refused.returncode == 2
    assert "the aggregates changed: avg(counter * 2) removed; count(*) kept" in refused.stderr
    assert "where avg(counter * 2) shall not be written, SELECT the other" in refused.stderr
    kept = plan(folder, text(kind, insert(OLD, "n, NULL, NULL")))
    assert kept.returncode == 0, kept.stderr
    assert "these start empty" not in kept.stdout


def test_an_aggregate_of_what_is_kept_already_needs_no_other_state(tmp_path: Path) -> None:
    folder = started(tmp_path, WINDOWED)
    more = OLD.replace(" FROM", ", count(counter * 2) AS top FROM")
    kept = plan(folder, text(WINDOWED, insert(more, "n, total, top")))
    assert kept.returncode == 0, kept.stderr
    assert "these start empty" not in kept.stdout


def test_another_window_is_no_change_of_aggregates(tmp_path: Path) -> None:
    folder = started(tmp_path, WINDOWED)
    wider = WINDOWED | {"window": "tumble(INTERVAL '2' MINUTE) AS w,"}
    refused = plan(folder, text(wider, insert(ADDED)))
    assert refused.returncode == 2
    assert "the window changed, the aggregates changed; the state" in refused.stderr
    assert "what can be done" not in refused.stderr


def test_an_aggregate_of_another_meaning_is_another_one(tmp_path: Path) -> None:
    folder = started(tmp_path, WINDOWED)
    shifted = "FROM (SELECT counter + 1 AS counter, subtask_index FROM numbers)"
    refused = plan(folder, text(WINDOWED, insert(OLD)).replace("FROM numbers", shifted))
    assert refused.returncode == 2
    assert "avg((counter + 1) * 2) added; avg(counter * 2) removed; count(*) kept" in refused.stderr
