"""Deduplication through Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.operators import DeduplicateSpec
from tests.spark.operators.pipeline import SECOND, WAYS, Run, chain, col, source_spec, timestamps

COLUMNS = [("k", "string"), ("id", "bigint"), ("ts", "timestamp")]


@pytest.mark.parametrize("way", WAYS)
def test_first_rows_are_published_whatever_interrupts_them(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    keys = [None if i % 11 == 0 else f"key{i * 7 % 9}" for i in range(300)]
    rows = pa.table(
        {
            "k": keys,
            "id": pa.array(range(300), pa.int64()),
            "ts": timestamps([i * SECOND // 10 for i in range(300)]),
        }
    )
    # A key has the name of an output column that means something else.
    spec = DeduplicateSpec(
        keys=(col("id", "k"),), exprs=(col("id", "id + 1"), col("k")), ttl_ms=8_000
    )
    run = Run(spark, tmp_path, chain(source_spec(COLUMNS), spec), rows)
    run.finish(way, 60)
    expected, passed = [], {}
    for i, key in enumerate(keys):
        if key not in passed or i * 100 >= passed[key] + 8_000:
            passed[key] = i * 100
            expected.append((i + 1, key))
    assert sorted(run.changes("id", "k")) == expected
