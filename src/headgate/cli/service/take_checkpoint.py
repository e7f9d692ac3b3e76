"""`headgate checkpoint` and `savepoint`: take one now."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.render import print_json
from headgate.cli.service.client import AsJson, Token, Url, Wait, connect
from headgate.cli.service.control import WAIT_SECONDS, Timeout
from headgate.cli.service.jobs import Job
from headgate.core.errors import UserError

# The service waits this long itself.
SERVICE_WAIT_SECONDS = 60.0


def checkpoint(
    job: Job,
    wait: Wait = True,
    timeout: Timeout = WAIT_SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of a running job now."""
    client = connect(url, token)
    found = client.post(f"/jobs/{job}/checkpoints")
    if wait:
        last = found["last_epoch"]
        found = client.wait_for_job(
            job, lambda view: view["committed_epoch"] > last or view["terminal"], timeout
        )
    if as_json:
        print_json(found)
    else:
        typer.echo(f"job {job}: epoch {found['committed_epoch']} is committed")


def savepoint(
    job: Job,
    name: Annotated[
        str | None,
        typer.Argument(help="How to call it. With --state-dir the job may be left out."),
    ] = None,
    state_dir: Annotated[
        str | None,
        typer.Option(help="Without a service: name the newest checkpoint that is there."),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the savepoint of this name instead.")
    ] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint and name it; it is kept until a person deletes it."""
    if state_dir is not None:
        if delete:
            raise UserError(
                "--delete asks a service; here it is `headgate savepoints delete NAME --state-dir"
                " ...`",
                code="arguments",
            )
        from headgate.cli.inspection.take_savepoint import take_savepoint

        given = (job, name) if name is not None else (None, job)
        take_savepoint(given[0], str(given[1]), state_dir, as_json=as_json)
        return
    if name is None:
        raise typer.BadParameter("say the job and a name", param_hint="name")
    client = connect(url, token)
    if delete:
        client.delete(f"/jobs/{job}/savepoints/{name}")
        if as_json:
            print_json({"job": job, "deleted": name})
        else:
            typer.echo(f"savepoint {name} of job {job} is deleted")
        return
    found = client.post(
        f"/jobs/{job}/savepoints", {"name": name}, wait_seconds=SERVICE_WAIT_SECONDS
    )
    if as_json:
        print_json(found)
    elif found["pending"]:
        typer.echo(f"savepoint {name} is asked for; `headgate jobs history {job}` will tell")
    else:
        typer.echo(f"savepoint {name}: epoch {found['epoch']} of job {job}")
