"""`headgate jobs`: the jobs of a service, one of them, and what became of it."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console

from headgate.cli.render import (
    format_age,
    format_bytes,
    format_duration,
    format_moment,
    format_watermark,
    print_json,
    print_table,
    standard_console,
)
from headgate.cli.service.client import AsJson, Token, Url, connect
from headgate.controller.rules.notes import ExecutorsNote
from headgate.core.model import from_python

jobs = typer.Typer(
    name="jobs",
    help="List the service's jobs; show one, its history, errors and recoveries; delete it.",
    invoke_without_command=True,
    no_args_is_help=False,
)

Job = Annotated[str, typer.Argument(help="The job's id.")]
_StateDir = Annotated[
    str | None,
    typer.Option("--state-dir", help="Without a service: the jobs whose checkpoints are there."),
]
_COLUMNS = ("job", "state", "for", "epoch", "generation", "rows in", "lag", "doing")
_FIGURES = ("epoch", "generation", "rows in", "lag")


@jobs.callback()
def list_jobs(
    context: typer.Context,
    pipeline: Annotated[str | None, typer.Option(help="Only the jobs of this pipeline.")] = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    state_dir: _StateDir = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List the service's jobs."""
    if context.invoked_subcommand is not None:
        return
    if state_dir is not None:
        from headgate.cli.inspection.stored_jobs import show_stored_jobs

        show_stored_jobs(state_dir, as_json=as_json)
        return
    found = connect(url, token).get("/jobs", pipeline=pipeline, state=state)
    if as_json:
        print_json(found)
    else:
        print_table(standard_console(), _COLUMNS, [_row(job) for job in found], right=_FIGURES)


def _row(job: dict[str, Any]) -> tuple[object, ...]:
    progress = job["progress"] or {}
    lag = progress.get("lag_rows")
    alarms = "; ".join(f"ALARM: {alarm['message']}" for alarm in job["alarms"])
    return (
        job["job"],
        job["state"],
        format_age(time.time_ns() // 1_000_000 - job["since_ms"]),
        job["committed_epoch"],
        job["generation"],
        f"{progress.get('rows_in', 0):,}",
        "-" if lag is None else f"{lag:,}",
        alarms or job["doing"],
    )


@jobs.command()
def show(job: Job, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show one job."""
    found = connect(url, token).get(f"/jobs/{job}")
    if as_json:
        print_json(found)
        return
    print_job(standard_console(), found)


def print_job(console: Console, job: dict[str, Any]) -> None:
    """Print a job for a person."""
    progress = job["progress"] or {}
    lines = [
        ("job", f"{job['job']}  (pipeline {job['pipeline']})"),
        ("state", f"{job['state']}{': ' + job['doing'] if job['doing'] else ''}"),
        ("since", format_moment(job["since_ms"])),
        ("generation", f"{job['generation']}, parallelism {job['parallelism']}"),
        *([("node", job["node"])] if job["node"] else []),
        ("epoch", f"{job['committed_epoch']} committed, {job['last_epoch']} recorded"),
        ("restarts", f"{job['restarts_used']} used, {job['recoveries']} recoveries"),
        ("rows", f"{progress.get('rows_in', 0):,} in, {progress.get('rows_out', 0):,} out"),
        ("watermark", format_watermark(progress.get("watermark"))),
        *_driver_lines(job),
        *(("ALARM", alarm["message"]) for alarm in job["alarms"]),
    ]
    if job["error"]:
        lines.append(("error", f"{job['error']['message']} (code {job['error']['code']})"))
    print_table(console, ("", ""), lines)
    place = job.get("error_place")
    if place is not None:
        console.print(place["rendered"], markup=False, highlight=False, soft_wrap=True)


def _driver_lines(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Say where a job is driven, if not by the service that was asked."""
    if job["driven_here"] or job["terminal"]:
        return []
    if job["driven_by"] is None:
        return [("driven by", "nobody at the moment: the next controller takes it up")]
    said = job["progress_at_ms"]
    as_of = "" if said is None else f"; rows and watermark as of {format_moment(said)}"
    return [("driven by", f"{job['driven_by']}{as_of}")]


@jobs.command()
def history(
    job: Job,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 200,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show every change of state with its reason, and what happened in between."""
    found = connect(url, token).get(f"/jobs/{job}/history", limit=limit)
    if as_json:
        print_json(found)
        return
    rows = [(format_moment(e["at_ms"]), e["kind"], _entry_text(e)) for e in found]
    print_table(standard_console(), ("time", "what", ""), rows)


def _entry_text(entry: dict[str, Any]) -> str:
    match entry["kind"]:
        case "transition":
            t = entry["transition"]
            return (
                f"{t['before']} ({format_duration(t['duration_ms'])}) -> {t['after']}:"
                f" {t['reason']}"
            )
        case "phase":
            p = entry["phase"]
            return f"recovery {p['recovery']}, {p['phase']}: {format_duration(p['duration_ms'])}"
        case "cleanup":
            c = entry["cleanup"]
            freed = format_bytes(c["bytes_deleted"])
            return c["failure"] or f"{c['objects_deleted']} objects, {freed} deleted"
        case "executors":
            note: ExecutorsNote = from_python(ExecutorsNote, entry["executors"])
            return note.text()
        case kind:
            detail = entry[kind] or {}
            shown = {k: v for k, v in detail.items() if v is not None}
            return ", ".join(f"{k} {v}" for k, v in shown.items())


@jobs.command()
def errors(job: Job, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show what went wrong, newest first."""
    found = connect(url, token).get(f"/jobs/{job}/errors")
    if as_json:
        print_json(found)
        return
    rows = [
        (
            format_moment(e["at_ms"]),
            e["generation"],
            f"{e['error']['domain']}/{e['error']['code']}",
            e["error"]["message"],
        )
        for e in found
    ]
    print_table(standard_console(), ("time", "generation", "kind", "message"), rows)


@jobs.command()
def recoveries(job: Job, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show the recoveries with the times of their phases."""
    found = connect(url, token).get(f"/jobs/{job}/recoveries")
    if as_json:
        print_json(found)
        return
    names = ("identify", "prepare", "restart_workers", "restore", "resume")
    rows = []
    for recovery in found:
        times = {p["phase"]: format_duration(p["duration_ms"]) for p in recovery["phases"]}
        rows.append(
            (
                recovery["number"],
                format_moment(recovery["started_ms"]),
                *(times.get(name, "-") for name in names),
                format_duration(recovery["duration_ms"]),
                recovery["reason"],
            )
        )
    head = ("number", "time", *(name.replace("_", " ") for name in names), "total", "reason")
    print_table(standard_console(), head, rows)


@jobs.command()
def delete(
    job: Job,
    state_dir: _StateDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Forget a job that has ended. Its checkpoints stay in the state store.

    With --state-dir it is not a service that is asked: the job's checkpoints and savepoints there
    are deleted, unless somebody runs it.
    """
    if state_dir is not None:
        from headgate.cli.inspection.stored_jobs import delete_stored_job

        delete_stored_job(job, state_dir, yes=yes, as_json=as_json)
        return
    connect(url, token).delete(f"/jobs/{job}")
    if as_json:
        print_json({"deleted": job})
    else:
        typer.echo(f"job {job} is deleted; its checkpoints are still there")
