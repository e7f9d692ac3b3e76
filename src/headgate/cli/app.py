"""The command line as a whole: the list of commands, `--version`, errors and exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import headgate
from headgate.cli.on_demand import CommandEntry, group_of

EXIT_FAILED = 1
EXIT_REFUSED = 2

_LOCAL = "On this machine"
_CHECKPOINTS = "Checkpoints, without a service"
_SERVICE = "The service and its jobs"
_ABOUT = "What there is here"


def _entry(group: str, name: str, home: str, summary: str) -> CommandEntry:
    return CommandEntry(name=name, home=f"headgate.cli.{home}", summary=summary, group=group)


COMMANDS = (
    _entry(
        _LOCAL,
        "run",
        "local.run:run",
        "Run a pipeline until its data ends, it fails, or Ctrl-C stops it.",
    ),
    _entry(
        _LOCAL,
        "shell",
        "local.shell:shell",
        "Ask SQL and see rows as they come: over streams, over files, over what is declared here.",
    ),
    _entry(
        _LOCAL,
        "new",
        "local.new:new",
        "Make a folder with data, a pipeline, its test and a README, ready to run.",
    ),
    _entry(
        _LOCAL,
        "plan",
        "local.plan:plan",
        "Show the graph of a pipeline: operators, keys, state, append-only or updating.",
    ),
    _entry(
        _LOCAL,
        "test",
        "local.test:run_tests",
        "Test pipelines: rows given, rows expected; with --chaos, under kills as well.",
    ),
    _entry(
        _LOCAL,
        "package",
        "local.package:package",
        "Make the archive that Spark ships to executors that have only Python.",
    ),
    _entry(
        _LOCAL,
        "check",
        "local.check:check",
        "Compare every executor of a Spark cluster with this machine.",
    ),
    _entry(
        _CHECKPOINTS,
        "checkpoints",
        "inspection.checkpoints:checkpoints",
        "List the checkpoints of a job, newest first.",
    ),
    _entry(
        _CHECKPOINTS,
        "savepoints",
        "inspection.savepoints:savepoints",
        "List the savepoints of a job; delete one.",
    ),
    _entry(
        _CHECKPOINTS,
        "inspect",
        "inspection.inspect:inspect",
        "Show one checkpoint: operators, tables, runs, positions, watermarks, timings, output.",
    ),
    _entry(
        _CHECKPOINTS,
        "state",
        "inspection.state:state",
        "Query the state tables of a checkpoint with SQL.",
    ),
    _entry(
        _CHECKPOINTS,
        "diff",
        "inspection.diff:diff",
        "Show what changed from one checkpoint to another.",
    ),
    _entry(
        _CHECKPOINTS,
        "fork",
        "inspection.fork:fork",
        "Make a new job that starts from a checkpoint of an old one.",
    ),
    _entry(
        _CHECKPOINTS,
        "doctor",
        "inspection.doctor:doctor",
        "Verify every checkpoint of a job end to end and explain what is wrong.",
    ),
    _entry(
        _SERVICE,
        "serve",
        "service.serve:serve",
        "Run jobs and answer the other commands, until it is stopped.",
    ),
    _entry(
        _SERVICE,
        "node",
        "service.node:node",
        "Offer this machine's cores to services: their jobs' workers run here, until it is"
        " stopped.",
    ),
    _entry(
        _SERVICE,
        "nodes",
        "service.nodes:nodes",
        "List the machines that have joined the service, with their slots and workers.",
    ),
    _entry(
        _SERVICE,
        "pipelines",
        "service.pipelines:pipelines",
        "List the service's pipelines, create, check, show and delete them.",
    ),
    _entry(
        _SERVICE,
        "jobs",
        "service.jobs:jobs",
        "List the service's jobs; show one, its history, errors and recoveries; delete it.",
    ),
    _entry(_SERVICE, "start", "service.control:start", "Start a job of a pipeline on the service."),
    _entry(
        _SERVICE, "stop", "service.control:stop", "Stop a job; it goes on later with `restart`."
    ),
    _entry(
        _SERVICE,
        "restart",
        "service.control:restart",
        "Start a job again from its last checkpoint, whatever its state.",
    ),
    _entry(
        _SERVICE,
        "rescale",
        "service.control:rescale",
        "Change a job's parallelism; its state is split anew.",
    ),
    _entry(
        _SERVICE,
        "checkpoint",
        "service.take_checkpoint:checkpoint",
        "Take a checkpoint of a running job now.",
    ),
    _entry(
        _SERVICE,
        "savepoint",
        "service.take_checkpoint:savepoint",
        "Take a checkpoint and name it; it is kept until a person deletes it.",
    ),
    _entry(
        _SERVICE,
        "controllers",
        "service.controllers:controllers",
        "List the controllers that share the service's database.",
    ),
    _entry(_SERVICE, "logs", "service.follow:logs", "Show the end of a worker's log."),
    _entry(
        _SERVICE,
        "events",
        "service.follow:events",
        "Show what happens, as it happens, until Ctrl-C.",
    ),
    _entry(
        _ABOUT,
        "config",
        "about.config:config",
        "Show every setting with its value and its origin. Durations are in milliseconds.",
    ),
    _entry(
        _ABOUT,
        "connectors",
        "about.connectors:connectors",
        "List the connectors that are installed, and the options of each.",
    ),
    _entry(
        _ABOUT,
        "failpoints",
        "about.failpoints:failpoints",
        "List every failpoint with what it interrupts.",
    ),
)

app = typer.Typer(
    name="headgate",
    cls=group_of(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {headgate.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Streaming SQL pipelines on Apache Spark, recovered exactly once."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 refused."""
    try:
        app()
    except Exception as error:
        code = _complain(error)
        if code is None:
            raise
        sys.exit(code)


def _complain(error: Exception) -> int | None:
    """Say what went wrong and return the exit code; None for what nobody raised on purpose."""
    # What raised one of our errors has imported them; a command that raises none need not.
    from headgate.core.errors import HeadgateError, UserError

    if not isinstance(error, HeadgateError):
        return None
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    # Messages quote what people wrote, and brackets in it are not markup.
    console.print(f"[red]error:[/] {escape(error.message)}")
    # What the user gave is refused; what did not answer, or is damaged, has failed.
    return EXIT_REFUSED if isinstance(error, UserError) else EXIT_FAILED
