"""Runs one job in this process until it ends: what `headgate run` and `Pipeline.run` share."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.markup import escape

from headgate.components import PREVIEW_PATH, configured_controller, with_process_code
from headgate.config import Config
from headgate.controller.controller import Controller
from headgate.controller.rules.spec import JobSpec
from headgate.controller.status import JobStatus
from headgate.core.graph import PipelineGraph
from headgate.core.ids import NO_GENERATION, JobId
from headgate.embedded.display import RunDisplay
from headgate.embedded.finished import is_done, totals_at_end
from headgate.embedded.fresh import begin_anew
from headgate.embedded.interrupts import heard
from headgate.embedded.preview import followed, has_preview
from headgate.embedded.stopping import Stopper
from headgate.state.recovery.verdict import CannotResume, Verdict, judge
from headgate.storage import job_folder, open_store

WEEK_SECONDS = 7 * 24 * 3600.0
# When the end takes longer than this, a person is told what it waits for.
PATIENCE_SECONDS = 3.0


@dataclass(frozen=True)
class Ended:
    """How a job ended, where its last worker's log is, and what the process should exit with."""

    status: JobStatus
    log_path: Path
    seconds: float
    exit_code: int
    # It had finished before, and nothing was done.
    already: bool = False


def run_job(
    config: Config,
    spec: JobSpec,
    graph: PipelineGraph,
    display: RunDisplay,
    *,
    fresh: bool = False,
) -> Ended:
    """Run the job to its end, with an embedded controller; the display shows what happens.

    A job that is finished is not started again, unless its text is another one now, or it is to
    begin anew (`fresh`). Interrupts are heard from before the first file is opened until everything
    is closed.
    """
    begun = time.monotonic()
    stopper = Stopper(display)
    with heard(stopper.interrupt):
        controller = configured_controller(config)
        try:
            job = controller.job_of(spec)
            before = controller.find_job(job)
            if not fresh and before is not None and is_done(controller, before, spec):
                log_path = controller.log_path(job, before.generation)
                display.take_totals(totals_at_end(spec.state_url, before))
                return Ended(before, log_path, time.monotonic() - begun, 0, already=True)
            if fresh:
                begin_anew(controller, spec, graph, job, display)
            controller.subscribe(display.show)
            controller.subscribe(stopper.take)
            controller.start(take_up=False)
            with display.running(), ExitStack() as stack:
                if has_preview(graph):
                    folder = stack.enter_context(TemporaryDirectory(prefix="headgate-"))
                    rows = Path(folder) / "rows"
                    spec = replace(spec, planner_options={PREVIEW_PATH: str(rows)})
                    # Without a reader there is nobody to run it for.
                    stack.enter_context(followed(rows, display.row, stopper.interrupt))
                display.doing = lambda: controller.doing(job)
                if not fresh:
                    # What begins anew goes on from nothing that it would have to fit.
                    _tell(judge_start(controller, job, spec, graph), display)
                controller.attach_job(spec, fresh=fresh)
                stopper.attach(controller, job, before.generation if before else NO_GENERATION)
                status = controller.wait_for(job, lambda s: s.terminal, WEEK_SECONDS)
                code = stopper.job_ended(status)
            return Ended(
                status=status,
                log_path=controller.log_path(status.job, status.generation),
                seconds=time.monotonic() - begun,
                exit_code=code,
            )
        finally:
            _close(controller, display)


def _close(controller: Controller, display: RunDisplay) -> None:
    """Close it; whoever waits for that is told, and how not to."""
    told = threading.Timer(PATIENCE_SECONDS, display.closing)
    told.daemon = True
    told.start()
    try:
        controller.close()
    finally:
        told.cancel()


def judge_start(controller: Controller, job: JobId, spec: JobSpec, graph: PipelineGraph) -> Verdict:
    """Compare the pipeline with its state. Raises `CannotResume` before anything is touched."""
    known = controller.find_job(job) is not None
    verdict = judge(
        job_folder(open_store(spec.state_url), job),
        job,
        # The user's files count as the job has them.
        with_process_code(graph, spec.process_code),
        parallelism=spec.parallelism,
        allow_drop=frozenset(spec.allow_drop_state),
        # What the job has been allowed before is no typing mistake.
        accepted=frozenset(controller.job_spec(job).allow_drop_state if known else ()),
    )
    if not verdict.resumes:
        raise CannotResume(verdict)
    return verdict


def _tell(verdict: Verdict, display: RunDisplay) -> None:
    for said in verdict.changes():
        if display.as_json:
            display.say_json({"event": "StateKept", "job": verdict.job, "text": said})
        else:
            display.say(escape(said))
