"""A controller that is killed takes everything with it: workers, JVMs, Python daemons.

User code hangs in a Python worker meanwhile: not even that may keep a process alive.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headgate.engine.jvm.handover import PROCESS_NAME
from tests.faults.counting import SETTINGS
from tests.support.cli import HeadgateProcess
from tests.support.processes import marked, name_of
from tests.support.stand import MARK, Stand
from tests.support.waiting import eventually

SQL = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', event_rate = '100');
CREATE TABLE out (counter BIGINT)
WITH (connector = 'single_file', path = '{out}', format = 'json', type = 'sink');
INSERT INTO out SELECT hang(counter) FROM numbers;
"""
UDFS = """
import time
from pathlib import Path

@udf
def hang(value: int) -> int:
    Path('{hung}').touch()
    # Longer than any test; the process must be ended from outside.
    time.sleep(100_000)
    return value
"""
ALARMING = SETTINGS.replace("\n[job]", "stalled_after = '2s'\n[job]", 1)


@pytest.mark.timeout(900)
def test_function_that_hangs_raises_an_alarm_and_dies_with_a_killed_service(tmp_path: Path) -> None:
    stand = Stand(tmp_path, ALARMING)
    try:
        udfs = UDFS.format(hung=tmp_path / "hung")
        stand.start_job(SQL.format(out=tmp_path / "out.json"), udf_source=udfs)
        stand.wait("user code that hangs", (tmp_path / "hung").exists)
        stand.wait("an alarm", lambda: bool(stand.view()["alarms"]))
        assert "no checkpoint completed" in stand.view()["alarms"][0]["message"]
        assert stand.workers()
        assert stand.jvms()
        assert stand.python_workers()
        # They were forked from what the driver had imported.
        assert PROCESS_NAME in {name_of(pid) for pid in stand.python_workers()}
        stand.kill_service()
        stand.wait_until_gone()
    finally:
        stand.close(signal.SIGKILL)


@pytest.mark.timeout(900)
def test_no_process_stays_behind_a_killed_run(tmp_path: Path) -> None:
    sql, udfs, mark = tmp_path / "hang.sql", tmp_path / "udfs.py", str(os.getpid())
    sql.write_text(SQL.format(out=tmp_path / "out.json"))
    udfs.write_text(UDFS.format(hung=tmp_path / "hung"))
    process = HeadgateProcess(
        *("run", str(sql), "--udfs", str(udfs), "--state-dir", str(tmp_path / "state")),
        environment={MARK: mark},
    )
    try:
        assert eventually((tmp_path / "hung").exists)
        # The controller, the worker, its JVM, a daemon and a Python worker.
        assert len(marked(f"{MARK}={mark}")) >= 5
    finally:
        process.kill()
    assert eventually(lambda: not marked(f"{MARK}={mark}"))
