"""The Spark session of tests: set up as a worker's is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headgate.core.messages import RunSettings
from headgate.engine.jvm.session import start_session


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
