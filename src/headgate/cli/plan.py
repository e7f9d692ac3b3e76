"""`headgate plan`: what a SQL text would run, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.core.errors import SqlError, UserError
from headgate.core.graph import PipelineGraph
from headgate.core.model import to_json
from headgate.planner import plan as plan_sql
from headgate.planner.errors import render_error


def read_text(path: Path, what: str) -> str:
    """Read a file the user named."""
    try:
        return path.read_text()
    except OSError as error:
        raise UserError(f"cannot read the {what} '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the {what} '{path}' is not UTF-8 text: {error}") from error


def planned_or_exit(sql: str, udf_source: str | None) -> PipelineGraph:
    """Plan; where the SQL is refused, show it with a caret and exit with 2."""
    try:
        return plan_sql(sql, udf_source=udf_source)
    except SqlError as error:
        Console(stderr=True).print(
            render_error(sql, error), markup=False, highlight=False, soft_wrap=True
        )
        raise typer.Exit(2) from error


def plan(
    file: Annotated[Path, typer.Argument(help="The SQL file.")],
    udfs: Annotated[Path | None, typer.Option(help="Python file with @udf functions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the graph as JSON.")] = False,
) -> None:
    """Show the graph of a pipeline: operators, keys, state, append-only or updating."""
    from headgate.planner.explain import explain

    source = read_text(udfs, "UDF file") if udfs is not None else None
    graph = planned_or_exit(read_text(file, "SQL file"), source)
    typer.echo(to_json(graph, indent=2).decode() if as_json else explain(graph))
