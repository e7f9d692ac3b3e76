"""What routes share: the service, and the parameters that occur in many of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from pydantic import BeforeValidator

from headgate.server.schemas import NAME, PIPELINE, not_reserved
from headgate.server.service import Service


async def find_service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDep = Annotated[Service, Depends(find_service)]
JobPath = Annotated[
    str, BeforeValidator(not_reserved), Path(pattern=NAME, description="The job's id.")
]
PipelinePath = Annotated[str, Path(pattern=PIPELINE, description="The pipeline's name.")]
SavepointPath = Annotated[str, Path(pattern=NAME, description="The savepoint's name.")]
EpochPath = Annotated[int, Path(ge=1, le=2**53)]
