"""Checkpoints and savepoints of a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from headgate.core.ids import Epoch, JobId
from headgate.server import checkpoint_views
from headgate.server.problems import problems
from headgate.server.routes.common import EpochPath, JobPath, SavepointPath, ServiceDep
from headgate.server.schemas import (
    CheckpointDetail,
    CheckpointSummary,
    JobView,
    NewSavepoint,
    SavepointAnswer,
    SavepointView,
)
from headgate.state.inspection.savepoints import forget_savepoint
from headgate.state.protocol.epoch_log import list_savepoints

router = APIRouter(prefix="/api/v1/jobs/{job}", tags=["checkpoints"])

# The database remembers so many.
NOTES_MAX = 1_000


@router.get("/checkpoints", responses=problems(404, 503))
def list_checkpoints(
    job: JobPath,
    service: ServiceDep,
    limit: Annotated[int, Query(ge=1, le=NOTES_MAX)] = 50,
    derive: bool = False,
) -> list[CheckpointSummary]:
    """List the newest checkpoints. With `derive`, their state is read from the object store."""
    service.controller.job_status(JobId(job))
    notes = service.controller.job_checkpoints(JobId(job), limit=limit)
    store = service.open_store(JobId(job)) if derive else None
    return checkpoint_views.summaries(store, JobId(job), notes, limit)


@router.post("/checkpoints", status_code=202, responses=problems(404, 409, 421))
async def trigger_checkpoint(job: JobPath, service: ServiceDep) -> JobView:
    """Take a checkpoint now, or as soon as the one in flight is done."""

    def trigger() -> JobView:
        service.need_running(JobId(job), "checkpoint")
        service.controller.trigger_checkpoint(JobId(job))
        return service.job(JobId(job))

    return await service.commands.run(trigger)


@router.get("/checkpoints/{epoch}", responses=problems(404, 503))
def read_checkpoint(job: JobPath, epoch: EpochPath, service: ServiceDep) -> CheckpointDetail:
    """Return one checkpoint with the times and sizes of every operator and subtask."""
    service.controller.job_status(JobId(job))
    notes = service.controller.job_checkpoints(JobId(job), limit=NOTES_MAX)
    note = next((note for note in notes if note.epoch == epoch), None)
    return checkpoint_views.detail(service.open_store(JobId(job)), JobId(job), Epoch(epoch), note)


@router.get("/savepoints", responses=problems(404, 503))
def list_job_savepoints(job: JobPath, service: ServiceDep) -> list[SavepointView]:
    """List the savepoints, by name."""
    return [
        SavepointView(
            name=savepoint.name,
            epoch=savepoint.checkpoint.epoch,
            generation=savepoint.checkpoint.generation,
            created_ms=savepoint.created_ms,
        )
        for savepoint in list_savepoints(service.open_store(JobId(job)), JobId(job))
    ]


@router.post("/savepoints", status_code=201, responses=problems(404, 409, 421))
async def create_savepoint(
    job: JobPath,
    wanted: NewSavepoint,
    service: ServiceDep,
    response: Response,
    wait_seconds: Annotated[float, Query(ge=0, le=60)] = 10.0,
) -> SavepointAnswer:
    """Take a checkpoint and give it a name: retention never deletes it.

    Waits for it up to `wait_seconds`; one that is then still `pending` comes as an event.
    """
    answer = await service.savepoint(JobId(job), wanted.name, wait_seconds)
    if answer.pending:
        response.status_code = 202
    return answer


@router.delete("/savepoints/{name}", status_code=204, responses=problems(404, 503))
def delete_savepoint(job: JobPath, name: SavepointPath, service: ServiceDep) -> None:
    """Delete a savepoint. Its checkpoint goes with the next cleanup, if nothing needs it."""
    forget_savepoint(service.open_store(JobId(job)), JobId(job), name)
