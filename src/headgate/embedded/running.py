"""Runs one job in this process until it ends: what `headgate run` and `Pipeline.run` share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from headgate.components import PREVIEW_PATH, configured_controller
from headgate.config import Config
from headgate.controller.controller import Controller
from headgate.controller.rules.spec import JobSpec
from headgate.controller.status import JobStatus
from headgate.core.graph import PipelineGraph
from headgate.core.ids import JobId
from headgate.embedded.display import RunDisplay
from headgate.embedded.preview import followed, has_preview

WEEK_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Ended:
    """How a job ended, and where its last worker's log is."""

    status: JobStatus
    log_path: Path


def run_job(config: Config, spec: JobSpec, graph: PipelineGraph, display: RunDisplay) -> Ended:
    """Run the job to its end, with an embedded controller; the display shows what happens."""
    controller = configured_controller(config)
    try:
        controller.subscribe(display.show)
        controller.start(take_up=False)
        with display.running(), ExitStack() as stack:
            if has_preview(graph) and not display.as_json:
                rows = Path(stack.enter_context(TemporaryDirectory(prefix="headgate-"))) / "rows"
                spec = replace(spec, planner_options={PREVIEW_PATH: str(rows)})
                stack.enter_context(followed(rows, display.console))
            status = run_to_end(controller, controller.attach_job(spec))
        return Ended(status, controller.log_path(status.job, status.generation))
    finally:
        controller.close()


def run_to_end(controller: Controller, job: JobId) -> JobStatus:
    """Wait until the job has ended; the first interrupt stops it orderly, the second at once."""
    with _interrupts(controller, job):
        return controller.wait_for(job, lambda status: status.terminal, WEEK_SECONDS)


@contextmanager
def _interrupts(controller: Controller, job: JobId) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        # Python delivers signals to the main thread only: whoever has it decides about them.
        yield
        return
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        # A thread: the handler may have interrupted whatever holds the controller's lock.
        mode = "immediate" if asked.is_set() else "checkpoint"
        asked.set()
        threading.Thread(target=controller.stop_job, args=(job, mode), daemon=True).start()

    previous = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
