"""`headgate fork`: a new job out of an old checkpoint."""

from __future__ import annotations

import re
import time
from typing import Annotated

import typer

from headgate.cli.inspection.opened import (
    EPOCH_HELP,
    AsJson,
    StateDir,
    find_epoch,
    open_job,
    state_url,
)
from headgate.cli.render import files, print_json, standard_console
from headgate.controller.identity import job_id_for
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.core.model import to_python
from headgate.core.names import refuse_reserved
from headgate.state.recovery.fork import fork_checkpoint
from headgate.storage import job_folder, open_store


def fork(
    job: Annotated[str, typer.Argument(help="The job whose checkpoint is taken.")],
    to: Annotated[str, typer.Option("--to", help="The name of the new job.")],
    epoch: Annotated[str, typer.Option(help=EPOCH_HELP)] = "latest",
    state_dir: StateDir = None,
    to_state_dir: Annotated[
        str | None, typer.Option(help="Where the new job shall live; default: the same state dir.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a new job that starts from a checkpoint of an old one.

    State and source positions are copied; output that was staged, published or not, stays with the
    old job, and the new job's sinks begin their targets anew: give it targets of its own. May be
    repeated after a crash. Then: headgate run FILE --name NEW_JOB.
    """
    opened = open_job(state_dir, job)
    new_job = _new_job(to, opened.job)
    target_url = to_state_dir or state_url(state_dir)
    if new_job == opened.job and to_state_dir is None:
        raise UserError(
            f"job {new_job} cannot be forked into itself: choose another name with --to"
        )
    target = job_folder(open_store(target_url), new_job)
    chosen = find_epoch(opened, epoch)
    done = fork_checkpoint(
        opened.store, opened.job, chosen, target, new_job, now_ms=int(time.time() * 1000)
    )
    if as_json:
        print_json({"source": opened.job, **to_python(done)})
        return
    console = standard_console()
    what = "was forked before" if done.already else "forked"
    console.print(
        f"job {opened.job}, epoch {chosen}, {what} into [bold]{new_job}[/]: "
        f"{files(done.runs, done.bytes)} of state"
    )
    console.print(
        f"Start it with:  headgate run FILE --name {to}" + _option("--state-dir", target_url)
    )
    console.print(
        "Its sinks begin anew: give them other paths or topics than those of the old job."
    )


def _new_job(to: str, source: JobId) -> JobId:
    """Return the new job's id. Raises `UserError` for a name that is not an id as it stands.

    A pipeline may have any name, and its job another one made of it. Whoever names a job here shall
    find it under the name that they gave.
    """
    new_job = job_id_for(refuse_reserved(to, what="job"))
    if new_job != to:
        fit = re.sub(r"[^a-z0-9]+", "-", to.lower()).strip("-")[:80].strip("-")
        raise UserError(
            f"'{to}' cannot be the name of the new job: use lower-case letters, digits and '-',"
            f" for example --to {fit or f'{source}-fork'}",
            code="name",
        )
    return new_job


def _option(name: str, url: str) -> str:
    # What follows may be a secret.
    return f" {name} {url.partition('?')[0]}"
