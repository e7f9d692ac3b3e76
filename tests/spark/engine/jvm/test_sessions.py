"""One session for all micro-batches."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from pyspark.sql import SparkSession


def sessions(spark: SparkSession) -> int:
    """Return how many sessions live in the JVM."""
    jvm = spark._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()
    command = ["jcmd", str(pid), "GC.class_histogram"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"(\d+) +\d+ +org\.apache\.spark\.sql\.classic\.SparkSession\b(?!\$)", shown)
    assert found is not None, shown[:2000]
    return int(found[1])


@pytest.mark.skipif(shutil.which("jcmd") is None, reason="needs the tools of a JDK")
def test_a_frame_that_is_persisted_has_no_session_of_its_own(spark: SparkSession) -> None:
    """Such a one has a class loader, and a process is started to remove what it has left."""
    before = sessions(spark)
    frames = [spark.range(number + 1).persist() for number in range(5)]
    try:
        assert [frame.count() for frame in frames] == [1, 2, 3, 4, 5]
        assert sessions(spark) == before
    finally:
        for frame in frames:
            frame.unpersist()
