"""Jobs: their state and history, and what a person may tell them to do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from headgate.components import compile_job
from headgate.controller.store.history import HistoryEntry
from headgate.core.ids import Generation, JobId
from headgate.server.history_views import errors_of, recoveries_of
from headgate.server.problems import problems
from headgate.server.routes.common import JobPath, ServiceDep
from headgate.server.schemas import (
    GraphView,
    JobDetail,
    JobError,
    JobView,
    LogPage,
    NewJob,
    Recovery,
    RescaleJob,
    RestartJob,
    RestartVerdict,
    StopJob,
)
from headgate.server.service import graph_view
from headgate.server.worker_logs import log_page

router = APIRouter(prefix="/api/v1", tags=["jobs"])

Limit = Annotated[int, Query(ge=1, le=10_000)]
HISTORY_MAX = 10_000


@router.get("/jobs")
def list_jobs(
    service: ServiceDep, pipeline: str | None = None, state: str | None = None
) -> list[JobView]:
    """List the jobs, oldest first."""
    return [
        job
        for job in service.jobs()
        if pipeline in (None, job.pipeline) and state in (None, job.state)
    ]


@router.post("/jobs", status_code=201, responses=problems(404, 409, 413))
async def start_job(wanted: NewJob, service: ServiceDep, response: Response) -> JobDetail:
    """Start a job of a pipeline.

    With the id of a job that has a folder in the state store, it goes on from its checkpoints.
    """
    detail = await service.commands.run(lambda: service.job_detail(service.start_job(wanted)))
    response.headers["Location"] = f"/api/v1/jobs/{detail.job}"
    return detail


@router.get("/jobs/{job}", responses=problems(404))
def read_job(job: JobPath, service: ServiceDep) -> JobDetail:
    """Return a job as it is now."""
    return service.job_detail(JobId(job))


@router.delete("/jobs/{job}", status_code=204, responses=problems(404, 409, 421))
async def delete_job(job: JobPath, service: ServiceDep) -> None:
    """Forget a job that has ended. Its checkpoints stay in the state store."""
    await service.commands.run(lambda: service.delete_job(JobId(job)))


@router.get("/jobs/{job}/graph", responses=problems(404))
def read_job_graph(job: JobPath, service: ServiceDep) -> GraphView:
    """Return the graph of the job's text."""
    return graph_view(compile_job(service.controller.job_spec(JobId(job))))


@router.get("/jobs/{job}/history", responses=problems(404))
def read_history(job: JobPath, service: ServiceDep, limit: Limit = 1_000) -> list[HistoryEntry]:
    """Return the newest entries, oldest first: states, phases of recoveries, savepoints, ..."""
    service.controller.job_status(JobId(job))
    return service.controller.job_history(JobId(job), limit=limit)


@router.get("/jobs/{job}/recoveries", responses=problems(404))
def read_recoveries(job: JobPath, service: ServiceDep) -> list[Recovery]:
    """Return the recoveries with their five phases and times, oldest first."""
    service.controller.job_status(JobId(job))
    return recoveries_of(service.controller.job_history(JobId(job), limit=HISTORY_MAX))


@router.get("/jobs/{job}/errors", responses=problems(404))
def read_errors(job: JobPath, service: ServiceDep, limit: Limit = 100) -> list[JobError]:
    """Return what went wrong, newest first."""
    service.controller.job_status(JobId(job))
    return errors_of(service.controller.job_history(JobId(job), limit=HISTORY_MAX))[:limit]


@router.get("/jobs/{job}/logs", responses=problems(404, 421))
def read_logs(
    job: JobPath,
    service: ServiceDep,
    generation: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    offset: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    bytes_max: Annotated[int, Query(ge=1, le=1_048_576)] = 65_536,
) -> LogPage:
    """Return a piece of a worker's log: without `offset`, its end."""
    status = service.controller.job_status(JobId(job))
    wanted = Generation(status.generation if generation is None else generation)
    # Logs are on the machine where the worker ran, which the one that drives the job can reach.
    if not service.controller.log_path(JobId(job), wanted).exists():
        service.controller.membership.need_driver(JobId(job))
    found = service.controller.read_log(JobId(job), wanted, offset, bytes_max)
    return log_page(found, wanted)


@router.post("/jobs/{job}/stop", status_code=202, responses=problems(404, 409, 421))
async def stop_job(job: JobPath, service: ServiceDep, wanted: StopJob | None = None) -> JobView:
    """Stop a job: it takes a final checkpoint first, unless another mode says otherwise."""

    def stop() -> JobView:
        service.controller.stop_job(JobId(job), (wanted or StopJob()).mode)
        return service.job(JobId(job))

    return await service.commands.run(stop)


@router.post("/jobs/{job}/restart", status_code=202, responses=problems(404, 409, 421))
async def restart_job(
    job: JobPath, service: ServiceDep, wanted: RestartJob | None = None
) -> JobView:
    """Start a job again, whatever its state; settings that are given count from now on.

    If its state does not allow it, the answer is 409 with the verdict, and the job is left as it
    is.
    """

    def restart() -> JobView:
        service.restart_job(JobId(job), wanted or RestartJob())
        return service.job(JobId(job))

    return await service.commands.run(restart)


@router.post("/jobs/{job}/restart/verdict", responses=problems(404))
async def judge_restart(
    job: JobPath, service: ServiceDep, wanted: RestartJob | None = None
) -> RestartVerdict:
    """Say what a restart would do with the job's state, and do nothing."""

    def judge() -> RestartVerdict:
        verdict = service.judge_restart(JobId(job), wanted or RestartJob())
        return RestartVerdict(verdict=verdict, lines=verdict.lines())

    return await service.commands.run(judge)


@router.post("/jobs/{job}/rescale", status_code=202, responses=problems(404, 409, 421))
async def rescale_job(job: JobPath, wanted: RescaleJob, service: ServiceDep) -> JobView:
    """Change the parallelism; a job that has ended takes it when it is started again."""

    def rescale() -> JobView:
        service.rescale_job(JobId(job), wanted.parallelism)
        return service.job(JobId(job))

    return await service.commands.run(rescale)
