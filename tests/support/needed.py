"""Servers that tests need: where they cannot be had, the tests are skipped, but not in CI."""

from __future__ import annotations

import os

import pytest

from tests.support.kafka import jars
from tests.support.postgres import find_binaries

VARIABLE = "HEADGATE_TEST_SERVERS"


def need_postgres() -> None:
    _need("Postgres server", find_binaries() is not None)


def need_kafka() -> None:
    _need("Kafka broker", jars() is not None)


def _need(server: str, installed: bool) -> None:
    if installed:
        return
    reason = f"no {server} is installed here: run `make servers`"
    if os.environ.get(VARIABLE) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
