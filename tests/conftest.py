"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from headgate.testing import spark
from tests.support.needed import need_postgres
from tests.support.postgres import postgres_server

__all__ = ["spark"]

# The machines are shared: how long an example takes says nothing about the code.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")

# Tests here start whole systems, each for many seconds: they belong to `make verify` (the marker
# `verify`), but for those that say `quick`. Every other test belongs to `make test`.
VERIFIED = tuple(
    Path(__file__).parent / name for name in ("faults", "hosts", "integration", "fuzz", "servers")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        below = any(folder in item.path.parents for folder in VERIFIED)
        if below and item.get_closest_marker("quick") is None:
            item.add_marker("verify")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """One Postgres server for all tests. Whoever uses it belongs to `make verify`."""
    need_postgres()
    with postgres_server() as server:
        yield server.url
