"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from headgate.core.messages import RunSettings
from headgate.engine.jvm.session import start_session

# The machines are shared: how long an example takes says nothing about the code.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")

# Tests here start whole systems, each for many seconds: they belong to `make verify` (the marker
# `verify`), but for those that say `quick`. Every other test belongs to `make test`.
VERIFIED = tuple(Path(__file__).parent / name for name in ("faults", "integration", "fuzz"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        below = any(folder in item.path.parents for folder in VERIFIED)
        if below and item.get_closest_marker("quick") is None:
            item.add_marker("verify")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests: starting one takes seconds."""
    root = tmp_path_factory.mktemp("spark")
    settings = RunSettings(
        state_url=str(root / "state"),
        scratch_dir=str(root / "scratch"),
        master="local[2,4]",
        # Thousands of small plans run once each: to optimize their code costs more than it saves.
        # Room for all of it, or the JVM is busy throwing code away.
        spark_conf={
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-XX:ReservedCodeCacheSize=240m"
        },
    )
    session = start_session(settings, parallelism=2, app_name="headgate tests")
    yield session
    session.stop()
