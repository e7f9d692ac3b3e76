"""Errors as `application/problem+json` (RFC 9457): every answer that is not a success is one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from headgate.controller.membership import DrivenElsewhere
from headgate.core.errors import (
    CheckpointInvalid,
    ErrorInfo,
    ExternalError,
    HeadgateError,
    SqlError,
    UserError,
)
from headgate.planner.errors import render_error
from headgate.planner.locate import place_of
from headgate.state.recovery.verdict import CannotResume, Verdict

log = logging.getLogger("headgate.server")

MEDIA_TYPE = "application/problem+json"

# What is not here: 422 for the user's errors, 503 for external ones, 500 for the rest.
_STATUS_BY_CODE = {
    "no_such_job": 404,
    "no_such_pipeline": 404,
    "no_such_checkpoint": 404,
    "no_such_preview": 404,
    "no_such_savepoint": 404,
    "no_such_log": 404,
    "job_exists": 409,
    "job_alive": 409,
    "job_not_running": 409,
    "pipeline_exists": 409,
    "pipeline_in_use": 409,
    "pipeline_differs": 409,
    "state_would_be_lost": 409,
    "cannot_resume": 409,
    "savepoint_exists": 409,
    "savepoint_failed": 409,
    "too_large": 413,
    "too_many": 503,
    "command_lost": 503,
    "timeout": 504,
}


class FieldError(BaseModel):
    """One wrong part of a request."""

    field: str
    message: str


class SqlProblem(BaseModel):
    """One error of a SQL text."""

    message: str
    line: int | None = None
    column: int | None = None
    # The line with a caret below the place, of an error that came up when the text was run.
    rendered: str | None = None


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    # Of a job that another controller drives: the URL of that one's service.
    controller: str | None = None
    # SQL: where it is wrong (1-based), and the lines with a caret below each place.
    line: int | None = None
    column: int | None = None
    rendered: str | None = None
    # Of a start that its state does not allow: what would be kept, what would be dropped, and
    # which option allows it.
    verdict: Verdict | None = None
    # All errors of the text: the first is the one above.
    sql_errors: list[SqlProblem] | None = None
    # Of a request that does not fit its schema.
    errors: list[FieldError] | None = None


class RefusedSql(SqlError):
    """A refused SQL text, shown with a caret."""

    def __init__(self, error: SqlError, rendered: str) -> None:
        super().__init__(error.message, line=error.line, column=error.column, others=error.others)
        self.rendered = rendered


def place_in(sql: str, udf_source: str | None, error: ErrorInfo | None) -> SqlProblem | None:
    """Return where in the text stands what Spark has refused, if the error is of that kind."""
    found = None if error is None else place_of(sql, udf_source, error)
    if found is None:
        return None
    rendered = render_error(sql, found)
    return SqlProblem(
        message=found.message, line=found.line, column=found.column, rendered=rendered
    )


def problem(status: int, code: str, detail: str, **more: Any) -> Problem:
    """Return the problem; its type is its code."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    kind = f"urn:headgate:{code}"
    return Problem(type=kind, title=title, status=status, detail=detail, code=code, **more)


def problem_of(error: HeadgateError) -> Problem:
    """Describe one of our own errors."""
    fallback = 422 if isinstance(error, UserError) else 503
    if isinstance(error, CheckpointInvalid):
        fallback = 409
    elif not isinstance(error, UserError | ExternalError):
        fallback = 500
    status = _STATUS_BY_CODE.get(error.code, fallback)
    where = f" (operator {error.operator})" if error.operator else ""
    more: dict[str, Any] = {}
    if isinstance(error, SqlError):
        more = {"line": error.line, "column": error.column}
    if isinstance(error, RefusedSql):
        more["rendered"] = error.rendered
        more["sql_errors"] = [
            SqlProblem(message=e.message, line=e.line, column=e.column) for e in error.every()
        ]
    if isinstance(error, CannotResume):
        # It names every operator.
        more["verdict"], where = error.verdict, ""
    if isinstance(error, DrivenElsewhere):
        status = _misdirected(error)
        more["controller"] = error.controller
    return problem(status, error.code, f"{error.message}{where}", **more)


def _misdirected(error: DrivenElsewhere) -> int:
    # Not a redirection: clients leave their token behind when they follow one to another host, or
    # follow with a GET. This one they do not follow, and ours does.
    if error.controller is not None:
        return HTTPStatus.MISDIRECTED_REQUEST
    return HTTPStatus.CONFLICT if error.retry_after_seconds is None else 503


def response(found: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        found.model_dump(exclude_none=True),
        status_code=found.status,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )


def install(app: FastAPI) -> None:
    """Answer every error with a problem."""
    app.add_exception_handler(HeadgateError, _on_headgate_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(SQLAlchemyError, _on_database_error)
    app.add_exception_handler(Exception, _on_unexpected)


def _on_headgate_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HeadgateError)
    found = problem_of(error)
    if found.status >= 500:
        log.error("%s %s: %s", request.method, request.url.path, error.message)
    headers: dict[str, str] = {}
    if isinstance(error, DrivenElsewhere):
        if error.controller is not None:
            query = f"?{request.url.query}" if request.url.query else ""
            headers["Location"] = f"{error.controller}{request.url.path}{query}"
        if error.retry_after_seconds is not None:
            headers["Retry-After"] = str(error.retry_after_seconds)
    return response(found, headers)


def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # What was sent is not repeated: it may be a secret, or large.
    errors = [
        FieldError(field=".".join(str(part) for part in e["loc"]), message=str(e["msg"])[:500])
        for e in error.errors()[:20]
    ]
    if any(e["type"] == "json_invalid" for e in error.errors()):
        return response(problem(400, "malformed", "the body is not JSON", errors=errors))
    detail = f"{errors[0].field}: {errors[0].message}" if errors else "the request is invalid"
    return response(problem(422, "invalid_request", detail, errors=errors))


def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 400: "malformed"}
    code = codes.get(error.status_code, "http")
    return response(problem(error.status_code, code, str(error.detail)), error.headers)


def _on_database_error(request: Request, error: Exception) -> JSONResponse:
    log.exception("%s %s: the database", request.method, request.url.path, exc_info=error)
    return response(problem(503, "database", "the database does not answer: try again later"))


def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    detail = f"{type(error).__name__}: see the log of the service"
    return response(problem(500, "unexpected", detail))


# ---- OpenAPI ---------------------------------------------------------------------------------


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that may answer with these problems."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }
