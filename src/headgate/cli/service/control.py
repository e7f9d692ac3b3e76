"""`headgate start`, `stop`, `restart`, `rescale`: what a person tells the jobs of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from headgate.cli.local.run import parse_settings
from headgate.cli.options import AllowDropState, AllowSkipPublished, Package, SharedPaths, Udfs
from headgate.cli.render import print_json
from headgate.cli.service.client import AsJson, ServiceClient, Token, Url, Wait, connect
from headgate.cli.service.jobs import Job
from headgate.cli.service.pipelines import refusing_texts, sql_text
from headgate.controller.rules.job_facts import RestartMode, StopMode
from headgate.core.errors import UserError

Parallelism = Annotated[int | None, typer.Option(min=1, help="Subtasks of every operator.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at most.")]
Interval = Annotated[
    str | None, typer.Option("--checkpoint-interval", help="10s, 500ms, ...; 0; or auto.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A Spark setting, spark.key=value.")
]
WAIT_SECONDS = 600.0


def start(
    pipeline: Annotated[
        str, typer.Argument(help="A stored pipeline, or a SQL file that is stored first.")
    ],
    name: Annotated[
        str | None, typer.Option(help="The pipeline's name, for a file; default: the file's.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change the stored text if the file has another.")
    ] = False,
    udfs: Udfs = None,
    job_id: Annotated[
        str | None,
        typer.Option("--id", help="The job's id; one that has checkpoints goes on from them."),
    ] = None,
    parallelism: Parallelism = None,
    checkpoint_interval: Interval = None,
    max_batch_rows: Annotated[
        int | None, typer.Option(min=1, help="Most rows of a source in one micro-batch.")
    ] = None,
    package: Package = None,
    shared_paths: SharedPaths = None,
    settings: Settings = None,
    allow_drop_state: AllowDropState = None,
    allow_skip_published: AllowSkipPublished = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Start a job of a pipeline on the service.

    A pipeline that is stored with another text than the file's is not replaced unasked: exit code
    2, as for refused SQL, with the difference and what can be done.
    """
    body: dict[str, Any] = {
        "pipeline": pipeline,
        "id": job_id,
        "parallelism": parallelism,
        "checkpoint_interval": checkpoint_interval,
        "max_batch_rows": max_batch_rows,
        "package": package,
        "shared_paths": shared_paths,
        "spark": parse_settings(settings) if settings else None,
        "allow_drop_state": allow_drop_state,
        "allow_skip_published": allow_skip_published,
    }
    file = Path(pipeline)
    if file.suffix == ".sql" or file.is_file():
        body |= sql_text(file, udfs)
        body["pipeline"] = name or file.stem
        body["replace"] = replace
    elif udfs is not None or name is not None or replace:
        raise UserError("--udfs, --name and --replace belong to a SQL file", code="arguments")
    with refusing_texts():
        found = connect(url, token).post("/jobs", body)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"job {found['job']} is {found['state']}: `headgate jobs show {found['job']}`")


def stop(
    job: Job,
    mode: Annotated[
        str, typer.Option(help="checkpoint (a final one first), graceful, immediate or force.")
    ] = "checkpoint",
    wait: Wait = True,
    timeout: Timeout = WAIT_SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Stop a job; it goes on later with `restart`."""
    _check(mode, get_args(StopMode))
    client = connect(url, token)
    found = client.post(f"/jobs/{job}/stop", {"mode": mode})
    if wait:
        found = client.wait_for_job(job, lambda view: bool(view["terminal"]), timeout)
    _say(found, as_json)


def restart(
    job: Job,
    mode: Annotated[
        str,
        typer.Option(
            help="safe (a final checkpoint first), forced (from the last one) or ignore_state."
        ),
    ] = "safe",
    update: Annotated[
        bool, typer.Option("--update", help="Take the pipeline's text as it is stored now.")
    ] = False,
    allow_drop_state: AllowDropState = None,
    allow_skip_published: AllowSkipPublished = False,
    parallelism: Parallelism = None,
    checkpoint_interval: Interval = None,
    package: Package = None,
    shared_paths: SharedPaths = None,
    settings: Settings = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what would become of the state.")
    ] = False,
    wait: Wait = True,
    timeout: Timeout = WAIT_SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Start a job again from its last checkpoint, whatever its state.

    A restart that its state does not allow is refused with what would be lost, and the job runs on.
    """
    _check(mode, get_args(RestartMode))
    client = connect(url, token)
    before = client.get(f"/jobs/{job}")["generation"]
    body = {
        "mode": mode,
        "update": update,
        "allow_drop_state": allow_drop_state,
        "allow_skip_published": allow_skip_published,
        "parallelism": parallelism,
        "checkpoint_interval": checkpoint_interval,
        "package": package,
        "shared_paths": shared_paths,
        "spark": parse_settings(settings) if settings else None,
    }
    if check or update:
        _tell_verdict(client.post(f"/jobs/{job}/restart/verdict", body), check, as_json)
    if check:
        return
    found = client.post(f"/jobs/{job}/restart", body)
    if wait:
        found = _wait_for_generation(client, job, before, timeout)
    _say(found, as_json)


def rescale(
    job: Job,
    parallelism: Annotated[int, typer.Argument(min=1, help="Subtasks of every operator.")],
    wait: Wait = True,
    timeout: Timeout = WAIT_SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Change a job's parallelism; its state is split anew."""
    client = connect(url, token)
    before = client.get(f"/jobs/{job}")
    found = client.post(f"/jobs/{job}/rescale", {"parallelism": parallelism})
    if wait and not found["terminal"] and before["parallelism"] != parallelism:
        found = _wait_for_generation(client, job, before["generation"], timeout)
    _say(found, as_json)


def _tell_verdict(found: dict[str, Any], check: bool, as_json: bool) -> None:
    """Show what would become of the state; if it was only asked for, the exit code says it."""
    verdict = found["verdict"]
    if check and as_json:
        print_json(found)
    elif check or verdict["resumes"]:
        # What is refused is said by the refusal. Standard output is for what became of the job.
        for line in found["lines"]:
            typer.echo(line, err=not check)
    if check and not as_json and verdict["resumes"]:
        where = f"from epoch {verdict['epoch']}" if verdict.get("epoch") else "from the beginning"
        typer.echo(f"job {verdict['job']} would go on {where}")
    if check and not verdict["resumes"]:
        raise typer.Exit(1)


def _wait_for_generation(
    client: ServiceClient, job: str, before: int, timeout: float
) -> dict[str, Any]:
    """Wait until a newer generation runs, or the job has ended."""

    def met(view: dict[str, Any]) -> bool:
        if view["state"] == "failed":
            return True
        # One that ended before it was restarted is not what is waited for.
        return bool(
            view["generation"] > before and (view["state"] == "running" or view["terminal"])
        )

    return client.wait_for_job(job, met, timeout)


def _check(mode: str, known: tuple[str, ...]) -> None:
    if mode not in known:
        raise UserError(f"unknown mode '{mode}': it is one of {', '.join(known)}", code="mode")


def _say(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        doing = f" ({job['doing']})" if job["doing"] else ""
        typer.echo(
            f"job {job['job']} is {job['state']}{doing}, epoch {job['committed_epoch']},"
            f" parallelism {job['parallelism']}"
        )
    if job["state"] == "failed":
        raise typer.Exit(1)
