"""`headgate plan`: what a SQL text would run, without running anything."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.local.pipeline_file import GivenPipeline, read_pipeline
from headgate.cli.options import (
    AllowDropState,
    AllowSkipPublished,
    PipelineFile,
    SharedPaths,
    Udfs,
)
from headgate.core.errors import SqlError
from headgate.core.graph import PipelineGraph
from headgate.core.model import to_json
from headgate.planner import plan_with_warnings
from headgate.planner.errors import render_errors, render_warning


def tell_functions(given: GivenPipeline) -> None:
    """Say which functions were found; on standard error, as standard output may be a document."""
    told = given.told()
    if told is not None:
        typer.echo(told, err=True)


def planned_or_exit(sql: str, udf_source: str | None, *, warn: bool = False) -> PipelineGraph:
    """Plan; if the SQL is refused, show all of its errors with a caret each and exit with 2.

    With `warn` what is allowed but probably not meant is shown, too.
    """
    try:
        planned = plan_with_warnings(sql, udf_source=udf_source)
    except SqlError as error:
        _show(render_errors(sql, error))
        raise typer.Exit(2) from error
    for warning in planned.warnings if warn else ():
        _show(render_warning(sql, warning))
    return planned.graph


def _show(text: str) -> None:
    from rich.console import Console

    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def plan(
    file: PipelineFile,
    udfs: Udfs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the graph as JSON.")] = False,
    state_dir: Annotated[
        str | None,
        typer.Option(help="Also say whether it could go on from the state that is there."),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Also say whether it could run on this Spark master.")
    ] = None,
    shared_paths: SharedPaths = None,
    name: Annotated[str | None, typer.Option(help="The job's name; default: the file's.")] = None,
    allow_drop_state: AllowDropState = None,
    allow_skip_published: AllowSkipPublished = False,
) -> None:
    """Show the graph of a pipeline: operators, keys, state, append-only or updating.

    With --state-dir it is compared with the job's newest checkpoint, as `run` would do it, and
    nothing is written. With --master, paths that only one host has are refused. Exit codes: 0 could
    go on, 1 the state is damaged, 2 refused: the SQL, such a path, or state that would be lost.
    """
    from headgate.planner.explain import explain

    given = read_pipeline(file, udfs)
    tell_functions(given)
    graph = planned_or_exit(given.sql, given.udf_source, warn=True)
    typer.echo(to_json(graph, indent=2).decode() if as_json else explain(graph))
    if master is not None:
        from headgate.planner.local_paths import refuse_local_paths

        refuse_local_paths(
            graph, state_url=state_dir, master=master, shared_paths=shared_paths or ()
        )
    if state_dir is not None:
        said = resumption(
            graph,
            state_dir,
            name or given.name,
            allow_drop=frozenset(allow_drop_state or ()),
            allow_skip_published=allow_skip_published,
        )
        # Standard output may be a JSON document, which ends here.
        typer.echo(said, err=as_json)


def resumption(
    graph: PipelineGraph,
    state_dir: str,
    name: str,
    *,
    allow_drop: frozenset[str],
    allow_skip_published: bool,
) -> str:
    """Say from where the pipeline would go on. Raises `UserError` if it would be refused."""
    from headgate.cli.inspection.opened import open_job
    from headgate.components import process_code, with_process_code
    from headgate.state.recovery.backend import NoCheckpoint, StateBackend
    from headgate.state.recovery.verdict import CannotResume, judge

    opened = open_job(state_dir, name)
    graph = with_process_code(graph, process_code(graph))
    # Any parallelism will do: state can be divided among any number of subtasks.
    verdict = judge(opened.store, opened.job, graph, parallelism=1, allow_drop=allow_drop)
    if not verdict.resumes:
        raise CannotResume(verdict)
    found = StateBackend(opened.store, opened.job).prepare_checkpoint_load(
        parallelism=1,
        graph=graph,
        allow_drop_state=allow_drop,
        allow_skip_published=allow_skip_published,
    )
    if isinstance(found, NoCheckpoint):
        return f"{opened.job} has no checkpoint: it would start from the beginning"
    known = set(found.plan.globals)
    fresh = [o.id for o in graph.checkpointed() if o.id not in known]
    start = f"; these start empty: {', '.join(fresh)}" if fresh else ""
    resumes = f"{opened.job} would resume from epoch {found.newest.epoch}{start}"
    return "\n".join([resumes, *verdict.lines()])
