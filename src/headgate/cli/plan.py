"""`headgate plan`: what a SQL text would run, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.pipeline_file import read_pipeline
from headgate.core.errors import SqlError
from headgate.core.graph import PipelineGraph
from headgate.core.model import to_json
from headgate.planner import plan as plan_sql
from headgate.planner.errors import render_error


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
    file: Annotated[Path, typer.Argument(help="SQL, or Python that defines a `Pipeline`.")],
    udfs: Annotated[Path | None, typer.Option(help="Python file with @udf functions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the graph as JSON.")] = False,
) -> None:
    """Show the graph of a pipeline: operators, keys, state, append-only or updating."""
    from headgate.planner.explain import explain

    given = read_pipeline(file, udfs)
    graph = planned_or_exit(given.sql, given.udf_source)
    typer.echo(to_json(graph, indent=2).decode() if as_json else explain(graph))
