"""What jobs leave behind is removed in time, a little per sweep, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from headgate.controller import folders
from headgate.controller.clock import SteadyClock
from headgate.controller.controller import Controller
from headgate.controller.folders import Folders, scratch_dir
from headgate.controller.housekeeping import Housekeeping
from headgate.controller.rules.states.created import Created
from headgate.controller.settings import Retention
from headgate.controller.store.history import ENTRY_KINDS, HistoryEntry
from headgate.controller.store.jobs import JobStore
from headgate.controller.store.tables import history, open_engine
from headgate.core.ids import Generation, JobId
from headgate.core.jvm_folder import jvm_folder
from headgate.core.model import to_json
from tests.support.waiting import eventually
from tests.unit.controller.support import GRAPH, controller_settings, facts, job_spec

JOB, GONE = JobId("orders"), JobId("gone")
DAY_MS = 86_400_000
NOW_MS = 400 * DAY_MS
PATIENCE_SECONDS = 60.0


class HandClock:
    def __init__(self) -> None:
        self.now = NOW_MS

    def now_ms(self) -> int:
        return self.now


class House:
    """A data folder and a database with one job, and what sweeps them."""

    def __init__(self, folder: Path, **kept: int) -> None:
        self.url = str(folder / "jobs.db")
        self.data = folder / "data"
        self.store = JobStore(self.url)
        self.store.create_job(JOB, job_spec(folder), Created(facts=facts(job=JOB)), NOW_MS)
        self.clock = HandClock()
        self.keeper = Housekeeping(self.store, self.data, Retention(**kept), self.clock)

    def note(self, kind: str, times_ms: list[int], job: JobId = JOB) -> None:
        engine = open_engine(self.url)
        with engine.begin() as connection:
            rows = [
                {
                    "job": job,
                    "at_ms": at_ms,
                    "kind": kind,
                    "entry": to_json(HistoryEntry(at_ms=at_ms, kind=kind)).decode(),
                }
                for at_ms in times_ms
            ]
            connection.execute(sa.insert(history), rows)
        engine.dispose()

    def noted(self, kind: str) -> list[int]:
        entries = self.store.read_history(JOB, limit=100_000)
        return [entry.at_ms for entry in entries if entry.kind == kind]

    def file(self, *parts: str, size: int = 1, age_ms: int = 0) -> Path:
        path = self.data.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        for changed in (path, path.parent):
            os.utime(changed, ((NOW_MS - age_ms) / 1000,) * 2)
        return path


def test_newest_entries_stay_and_transitions_stay_longer(tmp_path: Path) -> None:
    house = House(tmp_path, notes=10, transitions=100)
    for kind in ("cleanup", "transition"):
        house.note(kind, [NOW_MS - n for n in range(50, 0, -1)])
    house.keeper.sweep()
    assert house.noted("cleanup") == [NOW_MS - n for n in range(10, 0, -1)]
    assert len(house.noted("transition")) == 50


def test_entries_past_their_age_go_however_few_they_are(tmp_path: Path) -> None:
    house = House(tmp_path)
    for kind in ENTRY_KINDS:
        house.note(kind, [NOW_MS - 366 * DAY_MS, NOW_MS - 8 * DAY_MS, NOW_MS - DAY_MS])
    house.keeper.sweep()
    assert house.noted("transition") == [NOW_MS - 8 * DAY_MS, NOW_MS - DAY_MS]
    for kind in set(ENTRY_KINDS) - {"transition"}:
        assert house.noted(kind) == [NOW_MS - DAY_MS], kind


def test_one_sweep_deletes_a_bounded_number_of_entries_and_the_next_ones_the_rest(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, notes=100)
    house.note("cleanup", [NOW_MS - n for n in range(3_500, 0, -1)])
    left = []
    for _ in range(5):
        house.keeper.sweep()
        left.append(len(house.noted("cleanup")))
    assert left == [2_500, 1_500, 500, 100, 100]


def test_database_of_a_checkpoint_a_second_stops_growing(tmp_path: Path) -> None:
    house = House(tmp_path, notes=500)
    sizes = []
    for minute in range(60):
        house.note("cleanup", [NOW_MS + minute * 60_000 + second for second in range(60)])
        house.keeper.sweep()
        sizes.append(len(house.noted("cleanup")))
    assert sizes[-1] == 500
    assert max(sizes) <= 560


def test_worker_logs_are_limited_in_number_and_in_size(tmp_path: Path) -> None:
    house = House(tmp_path, worker_logs=2, worker_log_bytes=4_096)
    logs = [house.file("logs", JOB, f"worker-{n}.log", size=10) for n in range(1, 12)]
    older = house.file("logs", JOB, "worker-3.log.1")
    logs[-1].write_bytes(b"a" * 10_000 + b"b" * 4_096)
    house.keeper.sweep()
    assert [log.name for log in logs if log.exists()] == ["worker-10.log", "worker-11.log"]
    assert not older.exists()
    assert logs[-1].read_bytes() == b""
    assert (logs[-1].parent / "worker-11.log.1").read_bytes() == b"b" * 4_096


def test_worker_goes_on_writing_into_a_log_that_was_cut(tmp_path: Path) -> None:
    house = House(tmp_path, worker_log_bytes=4_096)
    path = house.file("logs", JOB, "worker-1.log", size=0)
    text = "import sys; print('x' * 9_999, flush=True); sys.stdin.readline(); print('after')"
    with path.open("ab") as opened:
        worker = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=opened
        )
    assert eventually(lambda: path.stat().st_size == 10_000)
    house.keeper.sweep()
    worker.communicate(b"\n")
    assert path.read_text() == "after\n"


def test_folders_of_unknown_jobs_go_after_a_while_and_those_of_others_stay(tmp_path: Path) -> None:
    house = House(tmp_path)
    kept, fresh, gone = [], [], []
    for kind in ("logs", "cache", "scratch"):
        kept.append(house.file(kind, JOB, "f", age_ms=30 * DAY_MS))
        fresh.append(house.file(kind, "recent", "f", age_ms=DAY_MS // 2))
        gone.append(house.file(kind, GONE, "f", age_ms=2 * DAY_MS))
    house.keeper.sweep()
    assert all(path.exists() for path in (*kept, *fresh))
    assert not any(path.parent.exists() for path in gone)
    assert not (house.data / "trash").exists()


def test_one_sweep_removes_a_bounded_number_of_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "FOLDERS_PER_SWEEP", 3)
    house = House(tmp_path)
    for n in range(8):
        house.file("cache", f"gone-{n}", "f", age_ms=2 * DAY_MS)
    left = []
    for _ in range(4):
        house.keeper.sweep()
        left.append(len(list((house.data / "cache").iterdir())))
    assert left == [5, 2, 0, 0]


def test_deleted_job_loses_its_cache_at_once_and_its_logs_later(tmp_path: Path) -> None:
    house = House(tmp_path)
    for kind in ("logs", "cache", "scratch"):
        house.file(kind, GONE, "f")
    house.keeper.forget(GONE)
    assert (house.data / "logs" / GONE).exists()
    for kind in ("cache", "scratch"):
        assert list((house.data / kind).iterdir()) == []


def test_scratch_of_spares_goes_with_their_controller(tmp_path: Path) -> None:
    house = House(tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ours = house.file("scratch", "_spares", f"spare-{os.getpid()}-1", "f")
    theirs = house.file("scratch", "_spares", f"spare-{dead.pid}-1", "f")
    house.keeper.sweep()
    assert ours.exists()
    assert not theirs.exists()


@pytest.mark.parametrize("discarded", ["", "job", "job/3"], ids=["all", "job", "generation"])
def test_what_jvms_had_elsewhere_goes_with_their_scratch(tmp_path: Path, discarded: str) -> None:
    data = tmp_path / ("a long path " * 5)
    scratch = scratch_dir(data, JobId("job"), Generation(3))
    scratch.mkdir(parents=True)
    elsewhere = Path(jvm_folder(str(scratch)) or "")
    assert elsewhere != scratch
    elsewhere.mkdir()
    Folders(data, Retention(), SteadyClock()).discard(data / "scratch" / discarded)
    assert not scratch.exists()
    assert not elsewhere.exists()


def test_sweeps_are_apart(tmp_path: Path) -> None:
    house = House(tmp_path)
    assert house.keeper.sweep_if_due()
    assert not house.keeper.sweep_if_due()
    house.clock.now += 60_000
    assert house.keeper.sweep_if_due()


def test_controller_sweeps_by_itself_and_removes_what_a_dead_generation_left(
    tmp_path: Path,
) -> None:
    settings = controller_settings(tmp_path, rows=100_000)
    kept = Retention(worker_logs=1, sweep_interval_ms=100)
    controller = Controller(replace(settings, lease_ttl_ms=900, retention=kept), lambda spec: GRAPH)
    data = Path(settings.data_dir)
    left = data / "scratch" / JOB / "1" / "f"
    left.parent.mkdir(parents=True)
    left.write_text("of a controller that was killed")
    controller.start()
    try:
        job = controller.attach_job(job_spec(tmp_path))
        controller.wait_for(job, lambda s: s.state == "running", PATIENCE_SECONDS)
        controller.restart_job(job, "forced")
        controller.wait_for(
            job, lambda s: s.state == "running" and s.generation == 2, PATIENCE_SECONDS
        )
        assert eventually(lambda: not controller.log_path(job, Generation(1)).exists())
        assert controller.log_path(job, Generation(2)).exists()
        assert not left.exists()
        assert eventually(lambda: not (data / "trash").exists())
    finally:
        controller.close()
