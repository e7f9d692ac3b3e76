"""`headgate check`: whether the executors of a cluster can run jobs, without running one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.local.pipeline_file import read_pipeline
from headgate.cli.local.plan import planned_or_exit, tell_functions
from headgate.cli.local.run import parse_settings
from headgate.cli.options import Package, SharedPaths, Udfs
from headgate.cli.render import print_json, print_table, standard_console
from headgate.components import (
    absolute_state_url,
    package_settings,
    process_code,
    with_process_code,
)
from headgate.config import load_config
from headgate.core.graph import PipelineGraph
from headgate.core.masters import is_local
from headgate.core.model import to_python
from headgate.planner.local_paths import refuse_local_paths

if TYPE_CHECKING:
    from headgate.engine.executors.compare import Answer

_FITS, _LACKS = "✓", "✗"


def check(
    file: Annotated[
        Path | None,
        typer.Argument(help="A pipeline: also compare what its tasks import and ask."),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: the setting job.master.")
    ] = None,
    package: Package = None,
    shared_paths: SharedPaths = None,
    state_dir: Annotated[
        str | None, typer.Option(help="Also see whether executors reach this state store.")
    ] = None,
    udfs: Udfs = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A Spark setting, spark.key=value.")
    ] = None,
    cores: Annotated[
        int,
        typer.Option(min=1, help="Wait for executors with so many cores, or until no more come."),
    ] = 10_000,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the first executor.")] = 60.0,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; default: headgate.toml, if there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Compare every executor of a Spark cluster with this machine.

    Python, Headgate and the libraries of tasks, the clock, and whether the state store and the
    systems of a pipeline answer there: what a job is asked before it starts. Exit codes: 0 every
    executor fits, 1 one does not.
    """
    loaded = load_config(
        path=config_file,
        environment=os.environ,
        flags={
            "state_url": state_dir,
            "job.master": master,
            "job.package": package,
            "job.shared_paths": shared_paths,
        },
    )
    job = loaded.config.job
    if is_local(job.master):
        typer.echo(f"the master is {job.master}: there are no executors to compare", err=as_json)
        if as_json:
            print_json([])
        return
    graph = None if file is None else _graph_of(file, udfs)
    # The default is a folder of this machine: nobody has said that it is meant.
    said = "state_url" in loaded.origins
    state_url = absolute_state_url(loaded.config.state_url) if said else None
    refuse_local_paths(
        graph or PipelineGraph(operators=()),
        state_url=state_url,
        master=job.master,
        shared_paths=job.shared_paths,
    )
    from headgate.engine.executors.checking import check_cluster

    answers = check_cluster(
        job.master,
        package_settings(job.package, job.spark | parse_settings(settings or [])),
        graph=graph,
        state_url=state_url,
        cores=cores,
        first_seconds=timeout,
    )
    _show(answers, as_json=as_json)
    if any(answer.findings for answer in answers):
        raise typer.Exit(1)


def _graph_of(file: Path, udfs: Path | None) -> PipelineGraph:
    given = read_pipeline(file, udfs)
    tell_functions(given)
    graph = planned_or_exit(given.sql, given.udf_source)
    return with_process_code(graph, process_code(graph))


def _show(answers: tuple[Answer, ...], *, as_json: bool) -> None:
    if as_json:
        print_json([{**to_python(a), "fits": not a.findings} for a in answers])
        return
    console = standard_console()
    columns = ("host", "executor", "cores", "Python", "Headgate", "libraries", "clock", "reach")
    print_table(console, columns, [_row(answer) for answer in answers], right=("cores",))
    for answer in answers:
        for finding in answer.findings:
            console.print(f"{_LACKS} {answer.name}: {finding.text()}", markup=False, soft_wrap=True)


def _row(answer: Answer) -> tuple[object, ...]:
    executor, facts = answer.executor, answer.facts
    wrong = {finding.what for finding in answer.findings}
    if facts is None:
        return (executor.host, executor.id, executor.cores, _LACKS, "", "", "", "")

    def mark(fits: bool, beside: str = "") -> str:
        return f"{_FITS if fits else _LACKS} {beside}".rstrip()

    asked = facts.reach
    return (
        executor.host,
        executor.id,
        executor.cores,
        mark(wrong.isdisjoint(("python", "platform")), facts.python),
        mark("headgate" not in wrong, facts.digest or "missing"),
        mark(wrong.isdisjoint(facts.libraries)),
        mark("clock" not in wrong),
        "" if asked is None else mark(not any(r.error for r in asked)),
    )
