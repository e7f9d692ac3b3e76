"""Collects the commands and turns errors into messages and exit codes."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.markup import escape

from headgate.cli.config import config
from headgate.cli.failpoints import failpoints
from headgate.cli.inspection.checkpoints import checkpoints
from headgate.cli.inspection.diff import diff
from headgate.cli.inspection.doctor import doctor
from headgate.cli.inspection.fork import fork
from headgate.cli.inspection.inspect import inspect
from headgate.cli.inspection.state import state
from headgate.cli.local.connectors import connectors
from headgate.cli.local.plan import plan
from headgate.cli.local.run import run
from headgate.cli.service.control import rescale, restart, start, stop
from headgate.cli.service.follow import events, logs
from headgate.cli.service.jobs import jobs
from headgate.cli.service.pipelines import pipelines
from headgate.cli.service.serve import serve
from headgate.cli.service.take_checkpoint import checkpoint, savepoint
from headgate.core.errors import HeadgateError, SqlError

EXIT_FAILED = 1
EXIT_REFUSED = 2

app = typer.Typer(
    name="headgate",
    help="Streaming SQL pipelines on Apache Spark, recovered exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(plan)
app.command()(checkpoints)
app.command()(inspect)
app.command()(state)
app.command()(diff)
app.command()(fork)
app.command()(doctor)
app.command()(connectors)
app.command()(failpoints)
app.command()(serve)
app.command()(config)
app.add_typer(pipelines)
app.add_typer(jobs)
for command in (start, stop, restart, rescale, checkpoint, savepoint, logs, events):
    app.command()(command)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 refused."""
    try:
        app()
    except SqlError as error:
        # `run` and `plan` show the text with a caret themselves; this is what has no text to show.
        _complain(error)
        sys.exit(EXIT_REFUSED)
    except HeadgateError as error:
        _complain(error)
        sys.exit(EXIT_FAILED)


def _complain(error: HeadgateError) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    # Messages quote what people wrote, and brackets in it are not markup.
    console.print(f"[red]error:[/] {escape(error.message)}")
