"""The OpenAPI: complete, and kept. Schemathesis makes up requests and compares the answers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate.server.app import create_app
from headgate.server.listen import build_service
from tests.unit.server.serving import Running, service_config

CHECKS = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
# A stream has no end to wait for, and a preview costs a worker.
EXAMPLES = 6
LEFT_OUT = re.compile(r"/events$|/preview$")


@pytest.fixture(scope="module")
def document(running: Running) -> dict[str, Any]:
    found: dict[str, Any] = running.get("/openapi.json")
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_is_described_and_its_errors_are_problems(
    document: dict[str, Any],
) -> None:
    found = operations(document)
    assert len(found) > 30
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path, method, operation in found:
        assert operation.get("description") or operation.get("summary"), (path, method)
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert answer["content"] == problem, (path, method, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_route_of_the_application_is_in_the_document(
    document: dict[str, Any], tmp_path: Path
) -> None:
    service = build_service(service_config(tmp_path))
    try:
        app = create_app(service)
        assert app.openapi()["paths"].keys() == document["paths"].keys()
    finally:
        service.close()


def api_operations(running: Running) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    found = schema.exclude(path_regex=LEFT_OUT.pattern).get_all_operations()
    # Deleting comes last: the others want something to be there.
    return sorted((result.ok() for result in found), key=lambda o: o.method == "delete")


@pytest.mark.verify
def test_made_up_requests_are_answered_as_described(running: Running) -> None:
    job = running.start("numbers", id="known")
    running.wait(job, lambda view: view["terminal"])
    found = api_operations(running)
    assert len(found) > 25
    seen: Counter[int] = Counter()
    for operation in found:
        check_operation(operation, seen)
    # Both what fits and what does not was asked, of things that are there and that are not.
    assert {200, 202, 404, 422} <= set(seen)
    assert running.get("/healthz")["status"] == "ok"


def check_operation(operation: Any, seen: Counter[int]) -> None:
    """Make requests up for one operation, fitting ones and others, and compare the answers."""
    for mode in schemathesis.GenerationMode:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            # Half of the time a job that exists, or nothing but 404 would be seen.
            given_job = case.path_parameters.get("job")
            if isinstance(given_job, str) and len(given_job) % 2:
                case.path_parameters["job"] = "known"
            response = case.call(timeout=120)
            seen[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        try:
            check()
        except (Unsatisfiable, SkipTest):
            # An operation without parameters has no requests that do not fit.
            assert mode is schemathesis.GenerationMode.NEGATIVE
