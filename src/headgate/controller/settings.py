"""How a controller works; its jobs have limits of their own."""

from __future__ import annotations

import sys

from headgate.core.model import model


@model
class ControllerSettings:
    """How this controller works. `data_dir` holds logs and scratch, never the truth."""

    database_url: str
    data_dir: str
    # None = as many as jobs ask for.
    slots: int | None = None
    lease_ttl_ms: int = 15_000
    # Workers that are kept ready, with Spark up, to take over a job whose worker died.
    warm_spares: int = 0
    host: str = "127.0.0.1"
    worker_command: tuple[str, ...] = (sys.executable, "-m", "headgate.engine.worker")
    worker_environment: dict[str, str] = {}  # noqa: RUF012
