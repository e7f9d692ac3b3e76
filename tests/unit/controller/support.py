"""What the controller's tests share: a small graph, facts, a controller whose workers count."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headgate.controller.controller import Controller
from headgate.controller.rules.job_facts import JobFacts, OperatorNeed, operator_needs
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.settings import ControllerSettings
from headgate.core.graph import Column, Operator, PipelineGraph
from headgate.core.ids import JobId, OperatorId
from headgate.operators import SinkSpec, SourceSpec
from tests.support.worker import WORKER

JOB = JobId("orders")
SOURCE, SINK = OperatorId("source"), OperatorId("sink")
COLUMNS = (Column(name="n", type="bigint"),)
GRAPH = PipelineGraph(
    operators=(
        Operator(
            id=SOURCE,
            spec=SourceSpec(table="numbers", connector="fake", options={}, columns=COLUMNS),
        ),
        Operator(
            id=SINK,
            spec=SinkSpec(table="out", connector="fake", options={}, columns=COLUMNS),
            inputs=(SOURCE,),
        ),
    )
)
NEEDS: tuple[OperatorNeed, ...] = operator_needs(GRAPH)

# Quick enough for tests, and every wait is still a wait for something.
QUICK = Limits(
    checkpoint_interval_ms=50,
    heartbeat_interval_ms=50,
    cleanup_interval_ms=0,
    cleanup_every_checkpoints=3,
    retained_checkpoints=3,
    backoff_initial_ms=10,
    stop_grace_ms=5_000,
)


def facts(**changes: object) -> JobFacts:
    return JobFacts(**{"job": JOB, "limits": Limits(), "parallelism": 2, **changes})  # type: ignore[arg-type]


def controller_settings(
    folder: Path, *, rows: int = 300, rate: int = 10, slots: int | None = None
) -> ControllerSettings:
    return ControllerSettings(
        database_url=f"sqlite:///{folder / 'jobs.db'}",
        data_dir=str(folder / "data"),
        slots=slots,
        lease_ttl_ms=3_000,
        worker_command=(
            sys.executable,
            str(WORKER),
            *("--step-ms", "5"),
            *("--rows", str(rows)),
            *("--rate", str(rate)),
            *("--out", str(folder / "out")),
        ),
    )


def job_spec(folder: Path, *, limits: Limits = QUICK, parallelism: int = 2) -> JobSpec:
    return JobSpec(
        name="orders",
        sql="SELECT n FROM numbers",
        state_url=str(folder / "state"),
        parallelism=parallelism,
        limits=limits,
    )


def new_controller(folder: Path, **changes: int | None) -> Controller:
    settings = controller_settings(folder, **changes)  # type: ignore[arg-type]
    return Controller(settings, lambda spec: GRAPH)


def published(folder: Path) -> list[tuple[int, int]]:
    """Return the published ranges, in epoch order, empty ones left out."""
    files = sorted((folder / "out").glob("*.json")) if (folder / "out").exists() else []
    ranges = [tuple(json.loads(file.read_text())) for file in files]
    return [(start, end) for start, end in ranges if start != end]


def is_exact(ranges: list[tuple[int, int]], rows: int) -> bool:
    """Whether the ranges cover 0..rows without gap or overlap."""
    expected = 0
    for start, end in ranges:
        if start != expected:
            return False
        expected = end
    return expected == rows
