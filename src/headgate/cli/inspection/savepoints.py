"""`headgate savepoints`: the checkpoints that a person named, and how to let one go."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.inspection.checkpoints import savepoint_lines
from headgate.cli.inspection.opened import AsJson, JobName, StateDir, open_job
from headgate.cli.render import format_moment, print_json, print_table, standard_console
from headgate.core.model import to_python
from headgate.state.inspection.savepoints import forget_savepoint

savepoints = typer.Typer(
    name="savepoints",
    help="List the savepoints of a job; delete one.",
    no_args_is_help=True,
)


@savepoints.command("list")
def list_savepoints(
    state_dir: StateDir = None, job: JobName = None, as_json: AsJson = False
) -> None:
    """List the savepoints of a job by name. A new one is taken with `headgate savepoint`."""
    opened = open_job(state_dir, job)
    lines = list(savepoint_lines(opened))
    if as_json:
        print_json({"job": opened.job, "savepoints": [to_python(line) for line in lines]})
        return
    rows = [
        (
            line.name,
            line.epoch,
            None if line.created_ms is None else format_moment(line.created_ms),
            line.damage,
        )
        for line in lines
    ]
    columns = ("savepoint", "epoch", "created", "damage")
    damaged = any(line.damage for line in lines)
    shown = len(columns) if damaged else len(columns) - 1
    print_table(
        standard_console(), columns[:shown], [row[:shown] for row in rows], right=("epoch",)
    )


@savepoints.command()
def delete(
    name: Annotated[str, typer.Argument(help="The savepoint.")],
    state_dir: StateDir = None,
    job: JobName = None,
    as_json: AsJson = False,
) -> None:
    """Delete a savepoint. Its checkpoint goes with the job's next cleanup, if nothing needs it."""
    opened = open_job(state_dir, job)
    forget_savepoint(opened.store, opened.job, name)
    if as_json:
        print_json({"job": opened.job, "deleted": name})
    else:
        typer.echo(f"savepoint {name} of job {opened.job} is deleted")
