"""Real servers on loopback, one of each for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kafka import Broker, kafka_broker
from tests.support.needed import need_kafka, need_postgres


@pytest.fixture(scope="session", autouse=True)
def _servers() -> None:
    need_kafka()
    need_postgres()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
