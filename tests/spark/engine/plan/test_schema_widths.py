"""Which rows may be handed to Python without weighing them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headgate.engine.plan.schema import is_fixed_width


@pytest.mark.parametrize(
    ("ddl", "fixed"),
    [
        ("a BIGINT, b DOUBLE, c BOOLEAN, d DATE, e TIMESTAMP, f DECIMAL(38, 2), g TINYINT", True),
        ("w STRUCT<start: TIMESTAMP, end: TIMESTAMP>", True),
        ("a BIGINT, b STRING", False),
        ("a BINARY", False),
        ("a ARRAY<INT>", False),
        ("a MAP<INT, INT>", False),
        ("w STRUCT<a: INT, b: STRING>", False),
    ],
)
def test_only_values_of_a_few_bytes_are_fixed_in_width(
    spark: SparkSession, ddl: str, fixed: bool
) -> None:
    assert is_fixed_width(StructType.fromDDL(ddl)) is fixed
