"""The application: routes, guards, errors, and the service behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool

import headgate
from headgate.server import problems
from headgate.server.api_page import OPENAPI, add_api_page
from headgate.server.guards import AccessGuard, BodyLimit
from headgate.server.problems import MEDIA_TYPE, Problem
from headgate.server.routes import (
    checkpoints,
    controllers,
    events,
    fork,
    jobs,
    metrics,
    nodes,
    pipelines,
)
from headgate.server.service import Service

DESCRIPTION = """Streaming SQL pipelines on Apache Spark, recovered exactly once.

Every error is `application/problem+json` with a stable `code`. Times are milliseconds since 1970,
durations milliseconds, watermarks microseconds of event time."""

# What any operation may answer, beside what its route declares.
_ALWAYS = {401, 403, 422, 500, 503}


def create_app(service: Service) -> FastAPI:
    """Return the application. It starts the service, and closes it when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(service.start)
        try:
            yield
        finally:
            await run_in_threadpool(service.close)

    app = FastAPI(
        title="Headgate",
        version=headgate.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        # FastAPI's own pages load their scripts from the internet.
        docs_url=None,
        redoc_url=None,
        openapi_url=OPENAPI,
    )
    app.state.service = service
    add_api_page(app)
    for module in (pipelines, jobs, checkpoints, fork, events, metrics, controllers, nodes):
        app.include_router(module.router)
    problems.install(app)
    settings = service.config.server
    # The last one added is the first one asked: who may ask at all comes before what is asked.
    app.add_middleware(BodyLimit, bytes_max=settings.body_bytes_max)
    app.add_middleware(AccessGuard, token=settings.token, hosts=(settings.host,))
    app.openapi = _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Return the OpenAPI with our errors in place of FastAPI's own."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            _add_problems(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    return describe


def _add_problems(schema: dict[str, Any]) -> None:
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    components.update(problem.pop("$defs", {}))
    components["Problem"] = problem
    components_security = schema["components"].setdefault("securitySchemes", {})
    components_security["token"] = {"type": "http", "scheme": "bearer"}
    # Without a token the service asks for none.
    schema["security"] = [{"token": []}, {}]
    for operations in schema["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            statuses = set(_ALWAYS) | ({400, 413} if "requestBody" in operation else set())
            for status, answer in problems.problems(*sorted(statuses)).items():
                found = answers.get(str(status))
                if found is None or MEDIA_TYPE not in found.get("content", {}):
                    answers[str(status)] = answer
