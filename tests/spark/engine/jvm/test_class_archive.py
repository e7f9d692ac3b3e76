"""The archive of Spark's classes is used where there is one, and nothing depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.engine.jvm import class_archive


def test_nothing_is_asked_of_the_jvm_without_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "archive_path", lambda: tmp_path / "absent.jsa")
    assert class_archive.java_options() == ""


def test_the_session_uses_the_archive_beside_the_options_of_the_user(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    runtime = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    arguments = list(runtime.getInputArguments())
    # The option of the tests' own session.
    assert "-XX:TieredStopAtLevel=1" in arguments
    wanted = f"-XX:SharedArchiveFile={class_archive.archive_path()}"
    assert (wanted in arguments) == class_archive.archive_path().exists()


def test_the_rehearsal_runs(spark: SparkSession, tmp_path: Path) -> None:
    class_archive.rehearse(spark, str(tmp_path))
    assert list((tmp_path / "rehearsal").glob("*.parquet"))
