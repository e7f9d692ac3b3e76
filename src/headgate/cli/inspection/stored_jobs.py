"""`headgate jobs --state-dir`: the jobs of a state store; how to delete one."""

from __future__ import annotations

import time
from typing import Any

import typer

from headgate.cli.inspection.drivers import forget_row, running_jobs
from headgate.cli.inspection.opened import OpenedJob, jobs_in, open_job, open_state, state_url
from headgate.cli.render import (
    count,
    files,
    format_age,
    print_json,
    print_table,
    standard_console,
)
from headgate.core.ids import JobId
from headgate.state.protocol import layout
from headgate.state.protocol.derive import Committing, SetAside
from headgate.state.protocol.epoch_log import list_checkpoints
from headgate.storage import job_folder

_COLUMNS = ("job", "state", "epoch", "age", "all of it", "savepoints", "run by")


def show_stored_jobs(state_dir: str, *, as_json: bool) -> None:
    """List the jobs of a state store by what is in their folders."""
    store = open_state(state_url(state_dir))
    running = running_jobs(state_dir)
    now_ms = int(time.time() * 1000)
    found = [_facts(OpenedJob(job_folder(store, job), job), running) for job in jobs_in(store)]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo(f"there is no job in {state_dir.partition('?')[0]}")
        return
    rows = [
        (
            job["job"],
            job["state"],
            job["epoch"],
            None if job["created_ms"] is None else format_age(now_ms - job["created_ms"]),
            files(job["objects"], job["bytes"]),
            ", ".join(job["savepoints"]),
            job["run_by"],
        )
        for job in found
    ]
    print_table(standard_console(), _COLUMNS, rows, right=("epoch", "age", "all of it"))


def _facts(opened: OpenedJob, running: dict[JobId, str]) -> dict[str, Any]:
    infos = list(opened.store.list(""))
    listed = list_checkpoints(opened.store, opened.job)
    newest = listed[0] if listed else None
    manifest = None if newest is None else newest.manifest
    match None if newest is None else newest.state:
        case None:
            state = "no checkpoint"
        case SetAside():
            state = "damaged"
        case Committing():
            state = "committing"
        case _:
            state = "ready"
    return {
        "job": opened.job,
        "state": "running" if opened.job in running else state,
        "epoch": None if newest is None else newest.epoch,
        "created_ms": None if manifest is None else manifest.created_ms,
        "objects": len(infos),
        "bytes": sum(info.bytes for info in infos),
        "savepoints": sorted(name for entry in listed for name in entry.savepoints),
        "run_by": running.get(opened.job),
    }


def delete_stored_job(job: str, state_dir: str, *, yes: bool, as_json: bool) -> None:
    """Delete a job's checkpoints and savepoints; raises `UserError` while somebody runs it."""
    opened = open_job(state_dir, job)
    infos = list(opened.store.list(""))
    size = files(len(infos), sum(info.bytes for info in infos))
    if not yes:
        typer.confirm(
            f"Delete all checkpoints and savepoints of job {opened.job} ({size})? It cannot go on"
            " from them afterwards; what its sinks have published stays",
            abort=True,
            err=True,
        )
    # The row goes first: without it the job still goes on from its folder. A row without a folder
    # would make the next run look for epochs that nobody has.
    forget_row(state_dir, opened.job)
    # The markers go last. Whoever starts the job while half of it is gone is told that records are
    # lost, and does not begin anew in a folder that is being emptied.
    paths = [info.path for info in infos]
    marks = [path for path in paths if path.startswith(f"{layout.COMMITTED}/")]
    opened.store.delete_many([path for path in paths if path not in set(marks)])
    opened.store.delete_many(marks)
    if as_json:
        print_json({"deleted": opened.job, "objects": len(infos)})
    else:
        typer.echo(f"job {opened.job} is deleted: {count(len(infos), 'file')}")
