"""`headgate run`: the whole system in one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.local.pipeline_file import read_pipeline
from headgate.cli.local.plan import planned_or_exit, tell_functions
from headgate.cli.options import (
    AllowDropState,
    AllowSkipPublished,
    Package,
    PipelineFile,
    SharedPaths,
    Udfs,
)
from headgate.components import check_places, job_spec, process_code
from headgate.config import load_config
from headgate.core.errors import UserError
from headgate.embedded.display import RunDisplay
from headgate.embedded.running import Ended, run_job


def run(
    file: PipelineFile,
    state_dir: Annotated[
        str | None, typer.Option(help="Where checkpoints live: a folder or an s3:// URL.")
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="Subtasks of every operator; may differ from last time."),
    ] = None,
    checkpoint_interval: Annotated[
        str | None, typer.Option(help="10s, 500ms, ...; 0 = as often as possible; or auto.")
    ] = None,
    max_batch_rows: Annotated[
        int | None, typer.Option(min=1, help="Most rows of a source in one micro-batch.")
    ] = None,
    udfs: Udfs = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A Spark setting, spark.key=value.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: this machine's cores.")
    ] = None,
    package: Package = None,
    shared_paths: SharedPaths = None,
    name: Annotated[str | None, typer.Option(help="The job's name; default: the file's.")] = None,
    allow_drop_state: AllowDropState = None,
    allow_skip_published: AllowSkipPublished = False,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; default: headgate.toml, if there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON event per line.")] = False,
) -> None:
    """Run a pipeline until its data ends, it fails, or Ctrl-C stops it.

    With the same state dir and name it resumes where it left off, at any parallelism. Ctrl-C takes
    a final checkpoint and stops; a second one stops at once. Exit codes: 0 finished or stopped,
    1 failed, 2 refused SQL.
    """
    given = read_pipeline(file, udfs)
    tell_functions(given)
    # Refuse wrong SQL here, with the text at hand, before anything is started or created.
    graph = planned_or_exit(given.sql, given.udf_source)
    config = load_config(
        path=config_file,
        environment=os.environ,
        flags={
            "state_url": state_dir,
            "job.parallelism": parallelism,
            "job.checkpoint_interval": checkpoint_interval,
            "job.max_batch_rows": max_batch_rows,
            "job.master": master,
            "job.package": package,
            "job.shared_paths": shared_paths,
        },
    ).config
    spec = job_spec(
        config,
        name=name or given.name,
        sql=given.sql,
        udf_source=given.udf_source,
        code=process_code(graph),
        spark=parse_settings(settings or []),
        allow_drop_state=tuple(allow_drop_state or ()),
        allow_skip_published=allow_skip_published,
    )
    check_places(graph, spec)
    # Events as JSON are for programs: nothing else may stand between them.
    console = Console(highlight=False)
    ended = run_job(config, spec, graph, RunDisplay(console, as_json=as_json))
    status = ended.status
    if status.state == "failed":
        _explain_failure(ended)
        raise typer.Exit(1)
    if not as_json:
        console.print(f"{status.pipeline}: {status.state}, epoch {status.committed_epoch}")


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """Parse `spark.key=value` pairs."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise UserError(f"--set {pair}: write spark.key=value", code="setting")
        parsed[key] = value
    return parsed


def _explain_failure(ended: Ended) -> None:
    status = ended.status
    error = Console(stderr=True, highlight=False)
    if status.error is None:
        error.print(f"[red]failed:[/] {status.doing}")
        return
    where = f" in operator {status.error.operator}" if status.error.operator else ""
    error.print(f"[red]failed{where}:[/] ", end="")
    error.print(status.error.message, markup=False, soft_wrap=True)
    error.print(
        f"[dim]code {status.error.code}, {status.error.domain} error; worker log: "
        f"{ended.log_path}[/]"
    )
