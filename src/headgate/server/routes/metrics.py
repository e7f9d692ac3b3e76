"""Numbers: for Prometheus, for a page, and for a probe."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

import headgate
from headgate.core.ids import JobId
from headgate.server.alarms import Alarm
from headgate.server.problems import problems
from headgate.server.prometheus import CONTENT_TYPE, render
from headgate.server.routes.common import JobPath, ServiceDep
from headgate.server.schemas import Health, JobMetrics

router = APIRouter(tags=["metrics"])


@router.get("/healthz")
async def read_health(service: ServiceDep) -> Health:
    """Say that the service answers, and what it has to do.

    Answered from memory: it waits neither for a thread nor for the database.
    """
    return Health(
        status="ok",
        version=headgate.__version__,
        started_ms=service.started_ms,
        jobs=service.job_counts,
        slots=service.config.controller.slots,
        slots_free=service.controller.slots_free(),
        warm_spares=len(service.controller.spare_pids()),
        alarms=len(service.alarms()),
        silent_ms=service.controller.membership.silent_ms(),
    )


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def read_prometheus(service: ServiceDep) -> PlainTextResponse:
    """All numbers in the text format of Prometheus."""
    return PlainTextResponse(render(service), headers={"Content-Type": CONTENT_TYPE})


@router.get("/api/v1/alarms")
def list_alarms(service: ServiceDep) -> list[Alarm]:
    """List running jobs that get nowhere: rows wait, or no checkpoint completes."""
    return service.alarms()


@router.get("/api/v1/jobs/{job}/metrics", responses=problems(404, 421))
def read_job_metrics(
    job: JobPath, service: ServiceDep, samples: Annotated[int, Query(ge=0, le=900)] = 300
) -> JobMetrics:
    """The job's numbers since the service started, with its newest heartbeats."""
    service.controller.job_status(JobId(job))
    service.controller.membership.need_driver(JobId(job))
    numbers = service.telemetry.numbers(JobId(job))
    return JobMetrics(
        job=job,
        checkpoints=numbers.checkpoints,
        checkpoint_seconds_total=numbers.checkpoint_seconds.total_seconds,
        aborts=numbers.aborts,
        objects_written=numbers.objects_written,
        bytes_written=numbers.bytes_written,
        rows_published=numbers.rows_published,
        objects_deleted=numbers.objects_deleted,
        bytes_deleted=numbers.bytes_deleted,
        held_up_seconds=numbers.held_up_seconds,
        recoveries=numbers.recoveries,
        recovery_phase_seconds=numbers.phase_seconds,
        store_requests=asdict(service.controller.store_requests(JobId(job))),
        epoch_requests=numbers.epoch_requests,
        epoch_bytes=numbers.epoch_bytes,
        samples=list(numbers.samples)[-samples:] if samples else [],
    )
