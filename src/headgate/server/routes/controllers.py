"""Controllers: the processes that drive the jobs of one database."""

from __future__ import annotations

from fastapi import APIRouter

from headgate.server.routes.common import ServiceDep
from headgate.server.schemas import ControllerView

router = APIRouter(prefix="/api/v1", tags=["controllers"])


@router.get("/controllers")
def list_controllers(service: ServiceDep) -> list[ControllerView]:
    """List the controllers that share this one's database, oldest first."""
    return service.controllers()
