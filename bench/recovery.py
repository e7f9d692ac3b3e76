"""W4: seconds from SIGKILL to the first newly published output, in a folder that keeps growing.

A feeder links one file of the data set after another into a folder, one a second. When output has
come several times, the worker (here) or the driver (the peer, `bench.peers.streaming_recovery`) is
killed with everything below it; both are restarted at once, by the controller or by a supervisor.
When the output is back, feeding ends, and what was published must be exactly the windows that the
watermark of the files closes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import check, machine
from bench.child import Task, parse, report
from bench.feeding import BackgroundFeeder
from bench.pipelines import job_spec, sql
from bench.results import RunResult
from headgate.components import configured_controller
from headgate.config import Config, ControllerConfig
from headgate.controller.announcements import Announcement, Noted
from headgate.controller.controller import Controller
from headgate.controller.processes.fleet import SPARES
from headgate.controller.processes.sessions import kill_session
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import PhaseNote
from headgate.core.ids import Generation

WORKLOAD = "W4 recovery"
WARM = "warm spare"
OUTPUTS_BEFORE_KILL = 4
FEED_SECONDS = 1.0
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.01


class Feeder(BackgroundFeeder):
    """Lets files appear in a folder, one after the other, whole."""

    def __init__(self, files: list[Path], folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True)
        self.folder = folder
        self._files = files
        self.exhausted = False

    def _feed(self) -> None:
        for path in self._files:
            os.link(path, self.folder / path.name)
            if self._end.wait(FEED_SECONDS):
                return
        self.exhausted = True


def wait_until(condition: Callable[[], bool], what: str) -> float:
    """Return when it became true, by the monotonic clock."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_SECONDS:.0f} s for {what}")
        time.sleep(POLL_SECONDS)
    return time.monotonic()


def measured(
    feeder: Feeder, published: Callable[[], list[Path]], kill: Callable[[], None]
) -> tuple[float, str]:
    """Feed, wait for a steady state, kill, wait for something new, and compare it all.

    Return the seconds from the kill until the first new output, and whether the answer is right.
    """
    feeder.start()
    wait_until(lambda: len(published()) >= OUTPUTS_BEFORE_KILL, "the first outputs")
    kill()
    killed = time.monotonic()
    # What was published in the moment of the kill is not the work of whoever comes after it.
    before = set(published())
    seconds = wait_until(lambda: not before.issuperset(published()), "output after the kill")
    if feeder.exhausted:
        raise RuntimeError("all files were fed before the measurement ended: use more rows")
    return seconds - killed, answer(feeder, published)


def result(
    task: Task, system: str, seconds: float, checked: str, facts: dict[str, Any]
) -> RunResult:
    """Return the figures in the form of all the others."""
    return RunResult(
        system=system,
        workload=task.workload,
        variant=task.variant,
        rows=0,
        seconds=seconds,
        checked=checked,
        facts={"recovery_s": seconds, **facts},
    )


def answer(feeder: Feeder, read: Callable[[], list[Path]]) -> str:
    """End the feeding, wait for the last windows to be published, and compare."""
    feeder.stop()
    times = [pq.read_table(p, columns=["ts"])["ts"] for p in feeder.folder.iterdir()]
    newest = max(pc.max(each.cast("int64")).as_py() for each in times)
    right = check.closed_by(check.expected_window(feeder.folder), newest - check.WATERMARK_DELAY_US)

    def rows() -> int:
        return sum(pq.read_metadata(path).num_rows for path in read())

    wait_until(lambda: rows() >= right.num_rows, "the last windows")
    return check.compare(check.ordered(check.read_parquet_files(read()), "window"), right)


def spare_is_ready(controller: Controller) -> bool:
    """Whether a spare has said, in its log, that its Spark is up."""
    logs = controller.log_path(SPARES, Generation(1)).parent
    return any("spare: spark is ready" in path.read_text() for path in logs.glob("*.log"))


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    feeder = Feeder(task.files(), task.work / "feed" / "files")
    growing = sql(task).replace(str(task.folder), str(feeder.folder))
    text = growing.replace("'bounded'", "'streaming'")
    spec = job_spec(task, text, Limits(checkpoint_interval_ms=1_000))
    spares = 1 if task.variant == WARM else 0
    controller = configured_controller(
        Config(state_url=spec.state_url, controller=ControllerConfig(warm_spares=spares))
    )
    phases: dict[str, float] = {}

    def hear(notice: Announcement) -> None:
        if isinstance(notice, Noted) and isinstance(notice.note, PhaseNote):
            phases[notice.note.phase] = notice.note.duration_ms

    try:
        controller.subscribe(hear)
        controller.start(take_up=False)
        job = controller.attach_job(spec)

        def kill() -> None:
            if spares:
                wait_until(lambda: spare_is_ready(controller), "the spare worker")
            pid = controller.worker_pid(job)
            assert pid is not None
            kill_session(pid)

        seconds, checked = measured(feeder, lambda: check.parquet_files(task.output), kill)
    finally:
        controller.close()
    report(task, result(task, "Headgate", seconds, checked, {"phases_ms": phases}), load_before)


if __name__ == "__main__":
    main()
