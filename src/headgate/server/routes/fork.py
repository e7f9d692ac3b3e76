"""Forks: a new job from an old checkpoint."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headgate.core.ids import JobId
from headgate.server.problems import problems
from headgate.server.routes.common import JobPath, ServiceDep
from headgate.server.schemas import ForkJob, JobDetail

router = APIRouter(prefix="/api/v1/jobs/{job}", tags=["checkpoints"])


@router.post("/fork", status_code=201, responses=problems(404, 409, 413))
async def fork_job(
    job: JobPath, wanted: ForkJob, service: ServiceDep, response: Response
) -> JobDetail:
    """Start a new job from a checkpoint of this one. The old job is not touched.

    May be repeated with the same `id` if it was interrupted.
    """
    detail = await service.commands.run(
        lambda: service.job_detail(service.fork_job(JobId(job), wanted))
    )
    response.headers["Location"] = f"/api/v1/jobs/{detail.job}"
    return detail
