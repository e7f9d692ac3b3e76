"""How a controller works; its jobs have limits of their own."""

from __future__ import annotations

import sys

from headgate.controller.nodes.placement import Workers
from headgate.core.model import model

DAY_MS = 86_400_000


@model
class Retention:
    """How long traces of jobs are kept on this machine and in the database."""

    # Per job: the newest entries of each kind, none older than the age.
    transitions: int = 10_000
    transitions_age_ms: int = 365 * DAY_MS
    notes: int = 10_000
    notes_age_ms: int = 7 * DAY_MS
    checkpoint_notes: int = 1_000
    # Per job: the newest logs, and the size at which one is moved aside.
    worker_logs: int = 20
    worker_log_bytes: int = 64 << 20
    deleted_jobs_age_ms: int = DAY_MS
    sweep_interval_ms: int = 60_000


@model
class ControllerSettings:
    """How this controller works. `data_dir` holds logs and scratch, never the truth."""

    database_url: str
    data_dir: str
    # None = as many as jobs ask for.
    slots: int | None = None
    lease_ttl_ms: int = 15_000
    # Where other controllers send those who ask them for our jobs; empty = nobody is to ask us.
    advertise_url: str = ""
    # Workers that are kept ready, with Spark up, to take over a job whose worker died.
    warm_spares: int = 0
    host: str = "127.0.0.1"
    # Where workers run; see `nodes/placement.py`. Nodes can only join where there is a service.
    workers: Workers = "here"
    node_timeout_ms: int = 15_000
    worker_command: tuple[str, ...] = (sys.executable, "-m", "headgate.engine.worker")
    worker_environment: dict[str, str] = {}  # noqa: RUF012
    retention: Retention = Retention()
