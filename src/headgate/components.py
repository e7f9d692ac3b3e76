"""Builds the real parts, once: the only place that knows both the controller and the planner."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy.exc import SQLAlchemyError

from headgate.config import Config, JobConfig
from headgate.controller.controller import Controller
from headgate.controller.rebuilding import rebuild_if_damaged
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.settings import ControllerSettings, Retention
from headgate.core.errors import ExternalError, InternalError, StorageError, UserError
from headgate.core.graph import PipelineGraph
from headgate.core.masters import default_parallelism
from headgate.operators import ProcessSpec, SinkSpec
from headgate.planner import plan
from headgate.planner.local_paths import refuse_local_paths, refuse_relative_urls
from headgate.storage import open_store
from headgate.storage.folder import is_local, local_path

# A planner option of a job: the file that its previews are appended to.
PREVIEW_PATH = "preview_path"


def compile_job(spec: JobSpec) -> PipelineGraph:
    """Turn a job's text into its graph."""
    if spec.graph is not None:
        check_places(spec.graph, spec)
        return spec.graph
    if spec.sql is None:
        raise InternalError(f"job {spec.name} has neither SQL nor a graph")
    graph = with_process_code(plan(spec.sql, udf_source=spec.udf_source), spec.process_code)
    check_places(graph, spec)
    preview_path = spec.planner_options.get(PREVIEW_PATH)
    return graph if preview_path is None else with_preview_path(graph, preview_path)


def check_places(graph: PipelineGraph, spec: JobSpec) -> None:
    """Refuse a job on a cluster that reads, writes or keeps its state on one host's disk.

    And one, wherever it runs, with a file URL that names no path.
    """
    refuse_relative_urls(graph)
    refuse_local_paths(
        graph, state_url=spec.state_url, master=spec.master, shared_paths=spec.shared_paths
    )


def package_settings(package: str | None, spark: dict[str, str]) -> dict[str, str]:
    """Return these settings of Spark with those that let executors use a package.

    Raises `UserError` if it was made by another Headgate or Python than this one.
    """
    if package is None:
        return spark
    # Whoever runs no package need not wait for what knows them.
    from headgate.engine.executors.archive import check_package
    from headgate.engine.executors.shipping import for_package

    check_package(Path(package))
    return spark | for_package(Path(package), spark)


def process_code(graph: PipelineGraph) -> dict[str, str]:
    """Read the files that the process operators of a graph name: file -> text."""
    files = {o.spec.file for o in graph.operators if isinstance(o.spec, ProcessSpec)}
    return {file: _read_code(file) for file in sorted(files)}


def _read_code(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"the Python file {file} of a process operator cannot be read: {error}. It is read "
            "once, where the job is made.",
            code="process_file",
        ) from error


def with_process_code(graph: PipelineGraph, code: dict[str, str]) -> PipelineGraph:
    """Put the text of the user's files into the graph: it is then stored and sent with it."""
    return replace(
        graph,
        operators=tuple(
            replace(o, spec=replace(o.spec, code=code[o.spec.file]))
            if isinstance(o.spec, ProcessSpec) and o.spec.file in code
            else o
            for o in graph.operators
        ),
    )


def with_preview_path(graph: PipelineGraph, path: str) -> PipelineGraph:
    """Let the rows of bare SELECTs be appended to a file, for whoever shows them."""
    return replace(
        graph,
        operators=tuple(
            replace(o, spec=replace(o.spec, options={**o.spec.options, "path": path}))
            if isinstance(o.spec, SinkSpec) and o.spec.connector == "preview"
            else o
            for o in graph.operators
        ),
    )


def local_data_dir(state_url: str) -> Path:
    """Return where a controller keeps its database, logs and scratch for a state URL.

    Beside the state if that is a folder of this machine, else below the working directory.
    None of it is the truth about checkpoints: that is in the state store.
    """
    parts = urlsplit(state_url)
    if parts.scheme in ("", "file"):
        return Path(parts.path if parts.scheme else state_url).absolute() / ".local"
    digest = hashlib.sha256(state_url.encode()).hexdigest()[:12]
    return Path(".headgate").absolute() / digest


def embedded_controller(state_url: str, *, environment: dict[str, str] | None = None) -> Controller:
    """Return a controller for this process: SQLite, local workers."""
    return configured_controller(Config(state_url=state_url), environment=environment)


def configured_controller(
    config: Config,
    *,
    environment: dict[str, str] | None = None,
    advertise_url: str = "",
    with_nodes: bool = False,
) -> Controller:
    """Return a controller for this process, as the settings say.

    `advertise_url` is where its service is asked; empty = it has none. Without a service there is
    nothing that nodes could join (`with_nodes`): its workers run on this machine.
    """
    wanted = config.controller
    data_dir = Path(wanted.data_dir or local_data_dir(absolute_state_url(config.state_url)))
    _make_writable_folder(data_dir)
    if not advertise_url:
        _check_state_store(config.state_url)
    settings = ControllerSettings(
        database_url=wanted.database_url or f"sqlite:///{data_dir.absolute() / 'jobs.db'}",
        data_dir=str(data_dir),
        slots=wanted.slots,
        lease_ttl_ms=wanted.lease_ttl,
        advertise_url=advertise_url,
        warm_spares=wanted.warm_spares,
        worker_command=wanted.worker_command or (sys.executable, "-m", "headgate.engine.worker"),
        worker_environment=environment or {},
        retention=retention_of(config),
        workers=wanted.workers if with_nodes else "here",
        node_timeout_ms=wanted.node_timeout,
    )
    return _open_controller(settings, config)


def _make_writable_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Asked now: what writes there later would fail in the middle of a job.
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UserError(
            f"cannot write to the folder '{folder}': {error.strerror}. Name one that can be written"
            " to with --state-dir, or for logs and scratch with the setting controller.data_dir",
            code="data_dir",
        ) from error


def _check_state_store(state_url: str) -> None:
    """Ask a store that is no folder for anything; raise `ExternalError` if it does not answer.

    For a person who waits in front of it. A service must come up while its store is away.
    """
    if is_local(state_url):
        return
    try:
        next(iter(open_store(state_url).list("")), None)
    except StorageError as error:
        # What follows may be a secret.
        where = state_url.partition("?")[0]
        raise ExternalError(
            f"the state store {where} does not answer: {error.message}. Is there such a bucket, and"
            " may you use it? Name another place with --state-dir",
            code="state_store",
        ) from error


def _open_controller(settings: ControllerSettings, config: Config) -> Controller:
    try:
        rebuild_if_damaged(
            settings.database_url, absolute_state_url(config.state_url), job_limits(config.job)
        )
        return Controller(settings, compile_job)
    except (SQLAlchemyError, ImportError, OSError) as error:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        # The URL itself may hold a password.
        kind = settings.database_url.partition(":")[0]
        raise ExternalError(
            f"cannot open the database of jobs ({kind}): {said}. It is named by --database or the"
            " setting controller.database_url, as sqlite:///path or postgresql://user@host/name;"
            " the latter needs headgate[postgres]",
            code="database",
        ) from error


def retention_of(config: Config) -> Retention:
    """Return how long traces of jobs are kept, as the settings say."""
    kept = config.retention
    return Retention(
        transitions=kept.transitions,
        transitions_age_ms=kept.transitions_age,
        notes=kept.notes,
        notes_age_ms=kept.notes_age,
        checkpoint_notes=kept.checkpoint_notes,
        worker_logs=kept.worker_logs,
        worker_log_bytes=kept.worker_log_bytes,
        deleted_jobs_age_ms=kept.deleted_jobs_age,
    )


def absolute_state_url(state_url: str) -> str:
    """Return the URL with a plain path made absolute: workers may run in another folder."""
    return state_url if "://" in state_url else str(Path(state_url).absolute())


def job_limits(job: JobConfig) -> Limits:
    """Return the numbers that the controller runs a job with."""
    return Limits(
        checkpoint_interval_ms=job.checkpoint_interval,
        checkpoint_timeout_ms=job.checkpoint_timeout,
        recovery_time_ms=job.recovery_time,
        retained_checkpoints=job.retained_checkpoints,
        restarts_max=job.restarts_max,
        healthy_ms=job.healthy_after,
        backoff_max_ms=job.backoff_max,
        heartbeat_interval_ms=job.heartbeat_interval,
        heartbeat_timeout_ms=job.heartbeat_timeout,
        stop_grace_ms=job.stop_grace,
    )


def _scratch_url(url: str | None) -> str:
    if url is None:
        return ""
    if not is_local(url):
        raise UserError(
            f"job.scratch_url is '{url}', and must be a folder that all hosts share. Without it, "
            "changes between barriers are in the state store.",
            code="configuration",
        )
    return local_path(url)


def job_spec(
    config: Config,
    *,
    name: str,
    sql: str | None = None,
    graph: PipelineGraph | None = None,
    udf_source: str | None = None,
    code: dict[str, str] | None = None,
    spark: dict[str, str] | None = None,
    allow_drop_state: tuple[str, ...] = (),
    allow_skip_published: bool = False,
) -> JobSpec:
    """Return a job as the settings say; `code` is the `process_code` of its graph.

    `spark` are settings of Spark that count before those of the settings.
    """
    job = config.job
    return JobSpec(
        name=name,
        sql=sql,
        graph=graph,
        udf_source=udf_source,
        process_code=code or {},
        state_url=absolute_state_url(config.state_url),
        parallelism=job.parallelism or default_parallelism(),
        limits=job_limits(job),
        master=job.master,
        max_batch_rows=job.max_batch_rows,
        source_idle_ms=job.source_idle,
        verify_checksums=job.verify_checksums,
        scratch_url=_scratch_url(job.scratch_url),
        spark_conf=package_settings(job.package, job.spark | (spark or {})),
        shared_paths=tuple(os.path.abspath(path) for path in job.shared_paths),
        allow_drop_state=allow_drop_state,
        allow_skip_published=allow_skip_published,
    )
