"""`Pipeline.run`: what `headgate run` does, called from Python."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from headgate.components import check_places, job_spec, process_code
from headgate.config import load_config
from headgate.core.errors import ErrorInfo, HeadgateError
from headgate.core.model import model
from headgate.embedded.display import RunDisplay
from headgate.embedded.inputs import check_inputs
from headgate.embedded.running import run_job
from headgate.planner import plan


@dataclass(frozen=True)
class RunRequest:
    """A pipeline and how to run it; None = as the settings say."""

    name: str
    sql: str
    udf_source: str | None
    state_dir: str | None
    parallelism: int | None
    checkpoint_interval: str | int | float | None
    max_batch_rows: int | None
    master: str | None
    spark: dict[str, str]
    allow_drop_state: tuple[str, ...]
    allow_skip_published: bool
    config: Path | None
    quiet: bool


@model
class RunResult:
    """How a run ended: `finished` at the end of the data, or `stopped` by a signal."""

    job: str
    state: str
    # The last checkpoint, whose output is published.
    epoch: int
    # Rows read and written by the job, in all its runs.
    rows_in: int
    rows_out: int


class PipelineFailed(HeadgateError):
    """The job failed for good. `log_path` is the log of its last worker."""

    def __init__(self, info: ErrorInfo, log_path: Path) -> None:
        super().__init__(info.message, code=info.code, operator=info.operator, detail=info.detail)
        self.domain = info.domain
        self.retry = info.retry
        self.log_path = log_path


def run_pipeline(request: RunRequest) -> RunResult:
    """Run the pipeline to its end. Raises `SqlError` before anything is started."""
    graph = plan(request.sql, udf_source=request.udf_source)
    config = load_config(
        path=request.config,
        environment=os.environ,
        flags={
            "state_url": request.state_dir,
            "job.parallelism": request.parallelism,
            "job.checkpoint_interval": request.checkpoint_interval,
            "job.max_batch_rows": request.max_batch_rows,
            "job.master": request.master,
        },
    ).config
    spec = job_spec(
        config,
        name=request.name,
        sql=request.sql,
        udf_source=request.udf_source,
        code=process_code(graph),
        spark=request.spark,
        allow_drop_state=request.allow_drop_state,
        allow_skip_published=request.allow_skip_published,
    )
    check_places(graph, spec)
    check_inputs(graph)
    # Quiet is quiet: of rows, too.
    nowhere = io.StringIO()
    console = Console(highlight=False, stderr=True, file=nowhere if request.quiet else None)
    display = RunDisplay(console, rows=nowhere if request.quiet else sys.stdout)
    ended = run_job(config, spec, graph, display)
    status = ended.status
    if status.state == "failed":
        raise PipelineFailed(status.error or ErrorInfo(message=status.doing), ended.log_path)
    return RunResult(
        job=status.job,
        state=status.state,
        epoch=status.committed_epoch,
        rows_in=display.progress.rows_in,
        rows_out=display.progress.rows_out,
    )
