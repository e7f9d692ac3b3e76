"""`headgate pipelines`: the pipelines of a service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.local.pipeline_file import read_sql_pipeline
from headgate.cli.options import Udfs
from headgate.cli.render import format_moment, print_json, print_table, standard_console
from headgate.cli.service.client import EXIT_REFUSED, AsJson, Token, Url, connect
from headgate.core.errors import UserError

pipelines = typer.Typer(
    name="pipelines",
    help="List the service's pipelines, create, check, show and delete them.",
    invoke_without_command=True,
    no_args_is_help=False,
)

File = Annotated[Path, typer.Argument(help="The SQL file.")]
Name = Annotated[str, typer.Argument(help="The pipeline's name.")]


@pipelines.callback()
def list_pipelines(
    context: typer.Context, url: Url = None, token: Token = None, as_json: AsJson = False
) -> None:
    """List the service's pipelines."""
    if context.invoked_subcommand is not None:
        return
    found = connect(url, token).get("/pipelines")
    if as_json:
        print_json(found)
        return
    rows = [(p["name"], len(p["jobs"]), format_moment(p["updated_ms"])) for p in found]
    print_table(standard_console(), ("name", "jobs", "changed"), rows, right=("jobs",))


@pipelines.command()
def create(
    file: File,
    name: Annotated[str | None, typer.Option(help="Default: the file's name.")] = None,
    udfs: Udfs = None,
    replace: Annotated[bool, typer.Option(help="Change the pipeline if it exists.")] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Store a SQL file as a pipeline."""
    body = sql_text(file, udfs)
    client = connect(url, token)
    named = name or file.stem
    with refusing_texts():
        if replace:
            found = client.put(f"/pipelines/{named}", body)
        else:
            found = client.post("/pipelines", {"name": named, **body})
    if as_json:
        print_json(found)
    else:
        typer.echo(f"pipeline {named}: start it with `headgate start {named}`")


@pipelines.command()
def validate(
    file: File, udfs: Udfs = None, url: Url = None, token: Token = None, as_json: AsJson = False
) -> None:
    """Check a SQL file; exit code 2 if it is refused."""
    found = connect(url, token).post("/pipelines/validate", sql_text(file, udfs))
    if as_json:
        print_json(found)
    elif found["valid"]:
        typer.echo(found["plan"]["explained"])
    else:
        problem = found["problem"]
        shown = problem["rendered"] or f"error: {problem['detail']}"
        Console(stderr=True).print(shown, markup=False, highlight=False, soft_wrap=True)
    if not found["valid"]:
        raise typer.Exit(EXIT_REFUSED)


@pipelines.command()
def show(name: Name, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show a pipeline's SQL and its jobs."""
    found = connect(url, token).get(f"/pipelines/{name}")
    if as_json:
        print_json(found)
        return
    typer.echo(found["sql"].strip())
    typer.echo(f"\njobs: {', '.join(found['jobs']) or 'none'}")


@pipelines.command()
def graph(name: Name, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show what a pipeline runs."""
    found = connect(url, token).get(f"/pipelines/{name}/graph")
    if as_json:
        print_json(found)
    else:
        typer.echo(found["explained"])


@pipelines.command()
def delete(name: Name, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Forget a pipeline that has no jobs."""
    connect(url, token).delete(f"/pipelines/{name}")
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"pipeline {name} is deleted")


def sql_text(file: Path, udfs: Path | None) -> dict[str, str | None]:
    """Return what a request says of a SQL file and its functions."""
    given = read_sql_pipeline(file, udfs)
    told = given.told()
    if told is not None:
        typer.echo(told, err=True)
    return {"sql": given.sql, "udf_source": given.udf_source, "folder": os.getcwd()}


@contextmanager
def refusing_texts() -> Iterator[None]:
    """Exit with 2 where the service refuses a text for what it says, as it does for wrong SQL."""
    try:
        yield
    except UserError as error:
        if error.code not in ("pipeline_differs", "relative_path"):
            raise
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print("[red]error:[/] ", end="")
        console.print(error.message, markup=False)
        raise typer.Exit(EXIT_REFUSED) from error
