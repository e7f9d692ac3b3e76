"""W4: seconds from SIGKILL to the first newly published output, in a folder that keeps growing.

A feeder links one file of the data set after another into a folder, one a second. When output has
come several times, the worker (here) or the driver (the peer, `bench.peers.streaming_recovery`) is
killed with everything below it; both are restarted at once, by the controller or by a supervisor.
When the output is back, feeding ends, and what was published must be exactly the windows that the
watermark of the files closes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import check, machine
from bench.child import CORES, DRIVER_MEMORY, Task, parse, report
from bench.pipelines import sql
from bench.results import RunResult
from headgate.components import configured_controller
from headgate.config import Config, ControllerConfig
from headgate.controller.controller import Controller
from headgate.controller.fleet import SPARES
from headgate.controller.limits import Limits
from headgate.controller.notes import PhaseNote
from headgate.controller.notices import Noted, Notice
from headgate.controller.processes import kill_session
from headgate.controller.spec import JobSpec
from headgate.core.ids import Generation

WORKLOAD = "W4 recovery"
WARM = "warm spare"
OUTPUTS_BEFORE_KILL = 4
FEED_SECONDS = 1.0
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.01


class Feeder:
    """Lets files appear in a folder, one after the other, whole."""

    def __init__(self, files: list[Path], folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._files = files
        self.exhausted = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

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


def measured(feeder: Feeder, visible: Callable[[], set[str]], kill: Callable[[], None]) -> float:
    """Feed, wait for a steady state, kill; return the seconds until something new is visible."""
    feeder.start()
    wait_until(lambda: len(visible()) >= OUTPUTS_BEFORE_KILL, "the first outputs")
    kill()
    killed = time.monotonic()
    # What was published in the moment of the kill is not the work of whoever comes after it.
    before = visible()
    seconds = wait_until(lambda: bool(visible() - before), "output after the kill") - killed
    if feeder.exhausted:
        raise RuntimeError("all files were fed before the measurement ended: use more rows")
    return seconds


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
    state_url = str(task.work / "state")
    spares = 1 if task.variant == WARM else 0
    controller = configured_controller(
        Config(state_url=state_url, controller=ControllerConfig(warm_spares=spares))
    )
    phases: dict[str, float] = {}

    def hear(notice: Notice) -> None:
        if isinstance(notice, Noted) and isinstance(notice.note, PhaseNote):
            phases[notice.note.phase] = notice.note.duration_ms

    def published() -> list[Path]:
        return [p for p in task.output.rglob("*.parquet") if not p.name.startswith(".")]

    try:
        controller.subscribe(hear)
        controller.start(take_up=False)
        job = controller.attach_job(_spec(task, feeder, state_url))

        def kill() -> None:
            if spares:
                wait_until(lambda: spare_is_ready(controller), "the spare worker")
            pid = controller.worker_pid(job)
            assert pid is not None
            kill_session(pid)

        seconds = measured(feeder, lambda: {p.name for p in published()}, kill)
        checked = answer(feeder, published)
    finally:
        controller.close()
    report(
        task,
        RunResult(
            system="Headgate",
            workload=task.workload,
            variant=task.variant,
            rows=0,
            seconds=seconds,
            checked=checked,
            facts={"recovery_s": seconds, "phases_ms": phases},
        ),
        load_before,
    )


def _spec(task: Task, feeder: Feeder, state_url: str) -> JobSpec:
    return JobSpec(
        name="recovery",
        sql=sql(task)
        .replace(str(task.folder), str(feeder.folder))
        .replace("'bounded'", "'streaming'"),
        state_url=state_url,
        parallelism=CORES,
        limits=Limits(checkpoint_interval_ms=1_000),
        master=f"local[{CORES},4]",
        spark_conf={
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.warehouse.dir": str(task.work / "warehouse"),
        },
    )


if __name__ == "__main__":
    main()
