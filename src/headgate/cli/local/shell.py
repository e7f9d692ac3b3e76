"""`headgate shell`: SQL with instant answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.local.pipeline_file import read_text


def shell(
    file: Annotated[
        Path | None, typer.Argument(help="SQL whose declarations are there from the start.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", "-c", help="Do these statements and end; rows on stdout."),
    ] = None,
    udfs: Annotated[Path | None, typer.Option(help="Python file with @udf functions.")] = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Subtasks; default: this machine's cores, at most 4.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One row as JSON per line.")] = False,
) -> None:
    """Ask SQL and see rows as they come: over streams, over files, over what is declared here.

    Without a terminal, statements are read from standard input. Exit codes: 0 done, 1 a query
    failed, 2 refused SQL, 130 ended by Ctrl-C.
    """
    from headgate.core.masters import default_parallelism
    from headgate.shell.interpreter import Interpreter
    from headgate.shell.running import Workers
    from headgate.shell.screen import Screen
    from headgate.shell.session import Session

    session = Session(read_text(udfs, "UDF file") if udfs is not None else None)
    prompting = command is None and sys.stdin.isatty()
    screen = Screen(prompting=prompting, as_json=as_json)
    workers = Workers(parallelism or default_parallelism())
    try:
        interpreter = Interpreter(session, workers, screen)
        code = interpreter.load(str(file)) if file is not None else 0
        if code:
            raise typer.Exit(code)
        if prompting:
            from headgate.shell.prompt import converse

            converse(interpreter, workers, screen)
            return
        text = command if command is not None else sys.stdin.read()
        code = interpreter.execute(text, go_on=False)
    finally:
        workers.close()
    raise typer.Exit(code)
