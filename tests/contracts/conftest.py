"""Adapters under contract: an S3 API server of its own process, on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import create_database
from tests.support.s3 import s3_request, start_s3_server


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start moto's S3 server, make a bucket `contracts`, and return its address."""
    log = tmp_path_factory.mktemp("moto") / "server.log"
    process, endpoint = start_s3_server(log)
    try:
        s3_request("PUT", f"{endpoint}/contracts")
        yield endpoint
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual variables, and none that a developer's machine may have set."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.verify)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'jobs.db'}"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest, postgres_url: str) -> str:
    """A database of the test's own. Whoever uses it belongs to `make verify`."""
    return create_database(postgres_url, request.node.nodeid)
