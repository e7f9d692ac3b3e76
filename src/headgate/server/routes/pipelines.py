"""Pipelines: named SQL texts, checked before they are stored."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headgate.controller.store.pipelines import StoredPipeline
from headgate.server.problems import problems
from headgate.server.routes.common import PipelinePath, ServiceDep
from headgate.server.schemas import (
    GraphView,
    NewPipeline,
    NewPreview,
    PipelineText,
    PipelineView,
    PreviewView,
    Validation,
)
from headgate.server.service import Service, graph_view

router = APIRouter(prefix="/api/v1", tags=["pipelines"])


@router.get("/pipelines")
def list_pipelines(service: ServiceDep) -> list[PipelineView]:
    """List the stored pipelines with their jobs."""
    jobs = _jobs_by_pipeline(service)
    return [_view(stored, jobs) for stored in service.controller.pipelines.list()]


@router.post("/pipelines", status_code=201, responses=problems(409, 413))
def create_pipeline(wanted: NewPipeline, service: ServiceDep, response: Response) -> PipelineView:
    """Store a pipeline under a new name. SQL that cannot run is refused, with the place."""
    service.compile_to_store(wanted)
    service.controller.pipelines.create(
        wanted.name, wanted.sql, wanted.udf_source, service.clock.now_ms()
    )
    response.headers["Location"] = f"/api/v1/pipelines/{wanted.name}"
    return _one(service, wanted.name)


@router.post("/pipelines/validate", responses=problems(413))
def validate_pipeline(text: PipelineText, service: ServiceDep, preview: bool = False) -> Validation:
    """Check SQL without storing it: the plan, or the error with line, column and caret.

    With `preview`, a bare SELECT is allowed.
    """
    return service.validate(text, preview=preview)


@router.post("/pipelines/preview", status_code=201, responses=problems(413, 503))
def create_preview(wanted: NewPreview, service: ServiceDep, response: Response) -> PreviewView:
    """Run a query for its first rows. Nothing is written to its sinks."""
    view = service.preview(wanted)
    response.headers["Location"] = f"/api/v1/previews/{view.id}"
    return view


@router.get("/pipelines/{name}", responses=problems(404))
def read_pipeline(name: PipelinePath, service: ServiceDep) -> PipelineView:
    """Return a stored pipeline."""
    return _one(service, name)


@router.put("/pipelines/{name}", responses=problems(413))
def put_pipeline(name: PipelinePath, text: PipelineText, service: ServiceDep) -> PipelineView:
    """Store a pipeline, or change its text. Its jobs take it when restarted with `update`."""
    service.compile_to_store(text)
    service.controller.pipelines.put(name, text.sql, text.udf_source, service.clock.now_ms())
    return _one(service, name)


@router.delete("/pipelines/{name}", status_code=204, responses=problems(404, 409))
def delete_pipeline(name: PipelinePath, service: ServiceDep) -> None:
    """Forget a pipeline that has no jobs."""
    service.controller.pipelines.delete(name)


@router.get("/pipelines/{name}/graph", responses=problems(404))
def read_pipeline_graph(name: PipelinePath, service: ServiceDep) -> GraphView:
    """Return the graph that the pipeline's text compiles to."""
    return graph_view(service.compile(service.stored_text(name)))


@router.get("/previews/{preview}", responses=problems(404), tags=["previews"])
def read_preview(preview: str, service: ServiceDep) -> PreviewView:
    """Return what a preview has shown so far."""
    return service.previews.get(preview)


@router.delete("/previews/{preview}", status_code=204, responses=problems(404), tags=["previews"])
def cancel_preview(preview: str, service: ServiceDep) -> None:
    """End a preview, and forget its rows."""
    service.previews.cancel(preview)


def _jobs_by_pipeline(service: Service) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job in service.jobs():
        found.setdefault(job.pipeline, []).append(job.job)
    return found


def _view(stored: StoredPipeline, jobs: dict[str, list[str]]) -> PipelineView:
    return PipelineView(
        name=stored.name,
        sql=stored.sql,
        udf_source=stored.udf_source,
        created_ms=stored.created_ms,
        updated_ms=stored.updated_ms,
        jobs=jobs.get(stored.name, []),
    )


def _one(service: Service, name: str) -> PipelineView:
    return _view(service.controller.pipelines.get(name), _jobs_by_pipeline(service))
