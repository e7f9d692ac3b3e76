"""Collects the commands and turns errors into messages and exit codes."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from headgate.cli.failpoints import failpoints
from headgate.cli.plan import plan
from headgate.cli.run import run
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
app.command()(failpoints)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 refused."""
    try:
        app()
    except SqlError as error:
        # `run` and `plan` show the text with a caret themselves; this is what has no text to show.
        Console(stderr=True).print(f"[red]error:[/] {error.message}", highlight=False)
        sys.exit(EXIT_REFUSED)
    except HeadgateError as error:
        Console(stderr=True).print(f"[red]error:[/] {error.message}", highlight=False)
        sys.exit(EXIT_FAILED)
