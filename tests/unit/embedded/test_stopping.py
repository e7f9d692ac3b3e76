"""What interrupts do to a job, and what the process then ends with."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headgate.controller.announcements import Noted, ProgressMade, StateChanged
from headgate.controller.rules.notes import ResumedNote
from headgate.controller.status import JobStatus
from headgate.core.checkpoint import RowTotals
from headgate.core.errors import ErrorDomain, ErrorInfo
from headgate.core.ids import NO_EPOCH, Epoch, Generation, JobId
from headgate.core.messages import Progress
from headgate.embedded.display import RunDisplay
from headgate.embedded.interrupts import heard
from headgate.embedded.stopping import Stopper

JOB = JobId("totals")


class FakeController:
    """Takes commands, or hangs with them."""

    def __init__(self) -> None:
        self.modes: list[str] = []
        self.told = threading.Event()
        self.killed = threading.Event()

    def stop_job(self, job: JobId, mode: str) -> None:
        self.modes.append(mode)
        self.told.set()

    def kill_workers(self) -> None:
        self.killed.set()

    def wait_for_command(self) -> None:
        assert self.told.wait(30)
        self.told.clear()


class Bench:
    def __init__(self, *, seconds: float = 60.0) -> None:
        self.said = io.StringIO()
        self.display = RunDisplay(Console(file=self.said, width=200))
        self.codes: list[int] = []
        self.ended = threading.Event()
        self.controller = FakeController()
        self.stopper = Stopper(self.display, seconds=seconds, end=self._end)
        controller: Any = self.controller
        self.stopper.attach(controller, JOB, Generation(3))

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()

    def go(self, *states: str) -> None:
        for before, after in pairwise(states):
            change = StateChanged(job=JOB, at_ms=0, before=before, after=after, reason="")
            self.stopper.take(change)

    def code(self, state: str, **changes: Any) -> int:
        fields: dict[str, Any] = {
            "job": JOB,
            "pipeline": "totals",
            "state": state,
            "terminal": True,
            "doing": "",
            "since_ms": 0,
            "generation": Generation(4),
            "parallelism": 1,
            "last_epoch": NO_EPOCH,
            "committed_epoch": NO_EPOCH,
            "checkpoint_in_flight": None,
            "restarts_used": 0,
            "recoveries": 0,
            "error": None,
            "progress": None,
            "driven_here": True,
            **changes,
        }
        return self.stopper.exit_code(JobStatus(**fields))


def test_first_interrupt_takes_a_final_checkpoint_and_ends_with_0() -> None:
    bench = Bench()
    bench.go("scheduling", "running")
    bench.stopper.interrupt()
    bench.controller.wait_for_command()
    bench.go("running", "checkpoint_stopping", "stopped")
    assert bench.controller.modes == ["checkpoint"]
    assert bench.code("stopped") == 0
    assert "Ctrl-C again stops at once" in bench.said.getvalue()


def test_interrupt_between_two_tries_does_not_wait_for_the_next_one() -> None:
    bench = Bench()
    bench.go("scheduling", "recovering")
    bench.stopper.interrupt()
    bench.controller.wait_for_command()
    bench.go("recovering", "stopping", "stopped")
    assert bench.controller.modes == ["immediate"]
    assert bench.code("stopped") == 1


def test_stop_of_a_start_that_has_failed_before_is_no_success() -> None:
    bench = Bench()
    bench.go("recovering", "compiling", "scheduling")
    bench.stopper.interrupt()
    bench.go("scheduling", "stopping", "stopped")
    assert bench.code("stopped", restarts_used=2) == 1


def test_stop_of_a_start_that_has_read_nothing_loses_nothing() -> None:
    bench = Bench()
    bench.go("compiling", "scheduling")
    bench.stopper.interrupt()
    bench.go("scheduling", "stopping", "stopped")
    assert bench.code("stopped") == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_second_interrupt_leaves_work_uncommitted_and_says_so(
    number: signal.Signals, code: int
) -> None:
    bench = Bench()
    bench.go("scheduling", "running")
    bench.stopper.interrupt(number)
    bench.controller.wait_for_command()
    bench.go("running", "checkpoint_stopping")
    bench.stopper.interrupt(number)
    bench.controller.wait_for_command()
    bench.go("checkpoint_stopping", "stopping", "stopped")
    assert bench.controller.modes == ["checkpoint", "force"]
    assert bench.code("stopped") == code
    assert not bench.codes


def test_second_interrupt_ends_a_process_whose_store_does_not_answer() -> None:
    bench = Bench(seconds=0.05)
    bench.go("scheduling", "running")
    bench.stopper.interrupt()
    bench.stopper.interrupt()
    assert bench.ended.wait(30)
    assert bench.codes == [130]
    assert bench.controller.killed.is_set()


def test_interrupt_after_the_end_of_the_job_keeps_its_exit_code() -> None:
    bench = Bench()
    status = FINISHED
    assert bench.stopper.job_ended(status) == 0
    bench.stopper.interrupt()
    assert bench.codes == [0]


FINISHED = JobStatus(
    job=JOB,
    pipeline="totals",
    state="finished",
    terminal=True,
    doing="",
    since_ms=0,
    generation=Generation(4),
    parallelism=1,
    last_epoch=NO_EPOCH,
    committed_epoch=NO_EPOCH,
    checkpoint_in_flight=None,
    restarts_used=0,
    recoveries=0,
    error=None,
    progress=None,
    driven_here=True,
)


def test_what_the_user_gave_is_refused_and_what_broke_has_failed() -> None:
    bench = Bench()
    users = ErrorInfo(message="no", domain=ErrorDomain.USER)
    assert bench.code("failed", generation=Generation(3), error=users) == 2
    assert bench.code("failed", generation=Generation(4), error=users) == 1
    assert bench.code("failed", generation=Generation(3), error=ErrorInfo(message="no")) == 1


SLEEPER = """
import sqlite3, sys, threading
from headgate.embedded.interrupts import heard
over = threading.Event()
with heard(lambda number: (print(number.name, flush=True), over.set())):
    print("ready", flush=True)
    # The main thread is in C, and stays there until somebody else lets the lock go.
    waiting = sqlite3.connect(sys.argv[1], timeout=60)
    try:
        waiting.execute("INSERT INTO t VALUES (2)")
    except sqlite3.OperationalError as error:
        print(error, flush=True)
"""


def test_interrupt_is_heard_while_the_main_thread_waits_for_a_database(tmp_path: Path) -> None:
    import sqlite3

    path = str(tmp_path / "locked.db")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN EXCLUSIVE")
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        # It is still waiting: the lock is held until here.
        assert process.stdout.readline() == "SIGTERM\n"
        holder.execute("ROLLBACK")
        assert process.wait(30) == 0
    holder.close()


def test_signals_are_as_before_when_nobody_listens_any_more() -> None:
    before = signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)
    with heard(lambda number: None):
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)) == before


# ---- what is shown ---------------------------------------------------------------------------


def test_rows_and_events_have_streams_of_their_own() -> None:
    events, rows = io.StringIO(), io.StringIO()
    display = RunDisplay(Console(file=events), as_json=True, rows=rows)
    display.show(StateChanged(job=JOB, at_ms=0, before="created", after="running", reason="go"))
    display.row('{"n":1}')
    assert rows.getvalue() == '{"n":1}\n'
    assert json.loads(events.getvalue())["after"] == "running"


def test_why_a_job_failed_is_not_said_by_every_state() -> None:
    said = io.StringIO()
    display = RunDisplay(Console(file=said, width=200))
    for before, after in (("running", "failing"), ("failing", "failed")):
        reason = "the disk [is] full"
        display.show(StateChanged(job=JOB, at_ms=0, before=before, after=after, reason=reason))
    assert "full" not in said.getvalue()
    assert "failing" in said.getvalue()


def test_resumed_job_shows_its_checkpoint_and_never_counts_back() -> None:
    said = io.StringIO()
    display = RunDisplay(Console(file=said, width=200))
    totals = RowTotals(rows_in=3_000, rows_out=210)
    note = ResumedNote(epoch=Epoch(9), created_ms=1_000, watermark=1_700_000_000_000_000)
    display.show(Noted(job=JOB, at_ms=13_000, note=replace(note, totals=totals)))
    assert "resuming from epoch 9 (12.0 s old), watermark 2023-11-14 22:13:20" in said.getvalue()
    assert "3,000 rows in, 210 out" in said.getvalue()
    assert (display.epoch, display.progress.watermark) == (9, note.watermark)
    # A recovery goes back to a checkpoint and reads the rows after it again.
    again = Progress(rows_in=2_000, rows_out=300)
    display.show(ProgressMade(job=JOB, at_ms=0, generation=Generation(5), progress=again))
    assert display.totals() == "3,000 rows in, 300 out"


@pytest.mark.parametrize(("running_ms", "said"), [(40_200, True), (1_000, False), (0, False)])
def test_batch_that_takes_long_is_told_while_it_runs_and_while_it_is_waited_for(
    running_ms: int, said: bool
) -> None:
    display = RunDisplay(Console(file=io.StringIO(), width=200), doing=lambda: "")
    moved = StateChanged(job=JOB, at_ms=0, before="scheduling", after="running", reason="")
    progress = Progress(batches=3, batch_running_ms=running_ms)
    display.show(moved)
    display.show(ProgressMade(job=JOB, at_ms=0, generation=Generation(1), progress=progress))
    assert ("batch running for 40" in display._status().plain) is said
    display.stopping()
    shown = display._status().plain
    assert ("stopping: batch running for 40" in shown) is said
    assert "Ctrl-C again stops at once" in shown
