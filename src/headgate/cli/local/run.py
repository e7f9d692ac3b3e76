"""`headgate run`: the whole system in one command."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from headgate.cli.local.pipeline_file import GivenPipeline, read_pipeline
from headgate.cli.local.plan import planned_or_exit, tell_functions
from headgate.cli.options import (
    AllowDropState,
    AllowSkipPublished,
    Package,
    PipelineFile,
    SharedPaths,
    Udfs,
)
from headgate.components import check_places, job_spec, process_code
from headgate.config import load_config
from headgate.core.durations import format_duration
from headgate.core.errors import ErrorInfo, SqlError, UserError
from headgate.core.model import to_python
from headgate.embedded.display import RunDisplay
from headgate.embedded.dropped import dropped_summary
from headgate.embedded.inputs import check_inputs
from headgate.embedded.interrupts import HEARD
from headgate.embedded.running import Ended, run_job
from headgate.embedded.stopping import EXIT_FAILED, EXIT_SIGNALLED
from headgate.planner.errors import render_error
from headgate.planner.locate import place_of


def run(
    file: PipelineFile,
    state_dir: Annotated[
        str | None, typer.Option(help="Where checkpoints live: a folder or an s3:// URL.")
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="Subtasks of every operator; may differ from last time."),
    ] = None,
    checkpoint_interval: Annotated[
        str | None, typer.Option(help="10s, 500ms, ...; 0 = as often as possible; or auto.")
    ] = None,
    max_batch_rows: Annotated[
        int | None, typer.Option(min=1, help="Most rows of a source in one micro-batch.")
    ] = None,
    udfs: Udfs = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A Spark setting, spark.key=value.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: this machine's cores.")
    ] = None,
    package: Package = None,
    shared_paths: SharedPaths = None,
    name: Annotated[str | None, typer.Option(help="The job's name; default: the file's.")] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Begin a new job (--name) at this epoch or savepoint of the job of the file.",
        ),
    ] = None,
    allow_drop_state: AllowDropState = None,
    allow_skip_published: AllowSkipPublished = False,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; default: headgate.toml, if there.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew; the old state is moved aside.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON event per line.")] = False,
) -> None:
    """Run a pipeline until its data ends, it fails, or Ctrl-C stops it.

    With the same state dir and name it resumes where it left off, at any parallelism. Rows of a
    bare SELECT go to standard output, everything else to standard error; with --json both as lines
    of JSON.

    A job that is finished is not run again; --fresh begins it anew.

    Ctrl-C takes a final checkpoint and stops; a second one stops at once, whatever does not answer.

    Exit codes: 0 finished, or stopped with everything committed; 1 failed, or stopped while it was
    failing; 2 refused before it was started: SQL, options, settings, or state that does not fit;
    130 (Ctrl-C) or 143 (SIGTERM) stopped at once: what came after the last checkpoint is
    done again by the next run.
    """
    given = read_pipeline(file, udfs)
    tell_functions(given)
    # Refuse wrong SQL here, with the text at hand, before anything is started or created.
    graph = planned_or_exit(given.sql, given.udf_source)
    config = load_config(
        path=config_file,
        environment=os.environ,
        flags={
            "state_url": state_dir,
            "job.parallelism": parallelism,
            "job.checkpoint_interval": checkpoint_interval,
            "job.max_batch_rows": max_batch_rows,
            "job.master": master,
            "job.package": package,
            "job.shared_paths": shared_paths,
        },
    ).config
    spec = job_spec(
        config,
        name=name or given.name,
        sql=given.sql,
        udf_source=given.udf_source,
        code=process_code(graph),
        spark=parse_settings(settings or []),
        allow_drop_state=tuple(allow_drop_state or ()),
        allow_skip_published=allow_skip_published,
    )
    check_places(graph, spec)
    check_inputs(graph)
    console = Console(stderr=True, highlight=False)
    if start is not None:
        from headgate.cli.local.start_from import start_from

        # Standard error may be lines of JSON, and names are not markup.
        said = start_from(spec.state_url, source=given.name, name=name, wanted=start)
        if not as_json:
            console.print(said, markup=False)
    display = RunDisplay(console, as_json=as_json)
    ended = run_job(config, spec, graph, display, fresh=fresh)
    report(ended, display, given)
    raise typer.Exit(ended.exit_code)


def report(ended: Ended, display: RunDisplay, given: GivenPipeline) -> None:
    """Say once how it ended: a failure with its remedy and the log, and what was done in all."""
    status, progress = ended.status, display.progress
    place = _place(given, status.error)
    if display.as_json:
        display.say_json(
            {
                "event": "Ended",
                "job": status.job,
                "state": status.state,
                "exit_code": ended.exit_code,
                "epoch": status.committed_epoch,
                "rows_in": progress.rows_in,
                "rows_out": progress.rows_out,
                "rows_late": progress.rows_late,
                "rows_bad": progress.rows_bad,
                "dropped": [to_python(row) for row in progress.dropped],
                "already": ended.already,
                "seconds": round(ended.seconds, 3),
                "error": None if status.error is None else to_python(status.error),
                "line": place and place.line,
                "column": place and place.column,
                "log": str(ended.log_path),
            }
        )
        return
    if ended.already:
        when = datetime.fromtimestamp(status.since_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
        display.say(
            f"{escape(status.pipeline)}: finished at {when}, epoch {status.committed_epoch}; "
            f"{display.totals()}. There is nothing left to do."
        )
        display.say(
            "With --fresh it begins anew: its state is moved aside, and everything is read again."
        )
        return
    if status.state == "failed":
        _explain_failure(ended, display)
    if place is not None:
        display.say(escape(render_error(given.sql, place)))
    took = format_duration(ended.seconds * 1000)
    name = escape(f"{status.pipeline}: {status.state}")
    display.say(f"{name}, epoch {status.committed_epoch}; {display.totals()}; {took}")
    for line in dropped_summary(progress):
        display.say(f"[yellow]{escape(line)}[/]")
    how = _CAVEATS.get(ended.exit_code) if status.state == "stopped" else None
    if how is not None:
        display.say(how)


_CAVEATS = {
    EXIT_FAILED: "[yellow]It was failing when it was stopped:[/] run it again to see whether it "
    "still does; it goes on from its last checkpoint.",
    **dict.fromkeys(
        (EXIT_SIGNALLED + number for number in HEARD),
        "[yellow]Stopped at once:[/] what came after its last checkpoint is done again by the next "
        "run.",
    ),
}


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """Parse `spark.key=value` pairs."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise UserError(f"--set {pair}: write spark.key=value", code="setting")
        parsed[key] = value
    return parsed


def _place(given: GivenPipeline, error: ErrorInfo | None) -> SqlError | None:
    """Return where in the SQL stands what Spark has refused, if the error is of that kind."""
    if error is None:
        return None
    return place_of(given.sql, given.udf_source, error)


def _explain_failure(ended: Ended, display: RunDisplay) -> None:
    status = ended.status
    if status.error is None:
        display.say(f"[red]failed:[/] {escape(status.doing)}")
        return
    where = f" in operator {status.error.operator}" if status.error.operator else ""
    display.say(f"[red]failed{escape(where)}:[/] {escape(status.error.message)}")
    # A job that was refused before it had a worker has no log.
    log = f"; worker log: {ended.log_path}" if ended.log_path.exists() else ""
    display.say(f"[dim]code {status.error.code}, {status.error.domain} error{escape(log)}[/]")
