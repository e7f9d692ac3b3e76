"""Builds the real parts, once: the only place that knows both the controller and the planner."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

from headgate.controller.controller import Controller, ControllerSettings
from headgate.controller.spec import JobSpec
from headgate.core.errors import InternalError
from headgate.core.graph import PipelineGraph
from headgate.planner import plan


def compile_job(spec: JobSpec) -> PipelineGraph:
    """Turn a job's text into its graph."""
    if spec.graph is not None:
        return spec.graph
    if spec.sql is None:
        raise InternalError(f"job {spec.name} has neither SQL nor a graph")
    return plan(spec.sql, udf_source=spec.udf_source)


def local_data_dir(state_url: str) -> Path:
    """Return where a controller keeps its database, logs and scratch for a state URL.

    Beside the state where that is a folder of this machine, else below the working directory.
    None of it is the truth about checkpoints: that is in the state store.
    """
    parts = urlsplit(state_url)
    if parts.scheme in ("", "file"):
        return Path(parts.path if parts.scheme else state_url).absolute() / ".local"
    digest = hashlib.sha256(state_url.encode()).hexdigest()[:12]
    return Path(".headgate").absolute() / digest


def embedded_controller(state_url: str, *, environment: dict[str, str] | None = None) -> Controller:
    """Return a controller for this process: SQLite, local workers."""
    data_dir = local_data_dir(state_url)
    data_dir.mkdir(parents=True, exist_ok=True)
    settings = ControllerSettings(
        database_url=f"sqlite:///{data_dir / 'jobs.db'}",
        data_dir=str(data_dir),
        worker_environment=environment or {},
    )
    return Controller(settings, compile_job)
