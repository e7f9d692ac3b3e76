"""What the tests of the postgres connector share: a server, and a schema for each test."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.postgres import Schema


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/connectors/postgres/" in str(item.path) and "/spark/" in str(item.path):
            item.add_marker("verify")


@pytest.fixture
def schema(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[Schema]:
    """A schema of the test's own, which is the first on the path of its url."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield Schema.create(postgres_url, request.node.nodeid, connection)
