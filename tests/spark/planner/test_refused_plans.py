"""What only Catalyst knows to be wrong: one try, Spark's own sentence, and a place in the SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import ErrorDomain, RetryHint
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import BatchFailed, expression_of
from headgate.planner import plan
from headgate.planner.locate import located
from tests.support.harness import PipelineHarness

SQL = """
CREATE TABLE rows (tags TEXT[], n BIGINT) WITH (
  connector = 'single_file', path = '{folder}/rows.json', format = 'json', type = 'source'
);
CREATE TABLE out (n BIGINT, text TEXT) WITH (
  connector = 'single_file', path = '{folder}/out.json', format = 'json', type = 'sink'
);
CREATE VIEW cut AS SELECT n,
  concat(substring(tags, 1, 2), 'x') AS text FROM rows;
INSERT INTO out SELECT n + 1, text FROM cut WHERE n > 3;
"""


def test_a_plan_that_catalyst_refuses_fails_once_with_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "rows.json").write_text('{"tags": ["a"], "n": 5}\n')
    sql = SQL.replace("{folder}", str(tmp_path))
    with pytest.raises(BatchFailed) as refused:
        PipelineHarness(spark, plan(sql), tmp_path / "job").run(parallelism=1)
    error = refused.value
    assert (error.domain, error.retry) == (ErrorDomain.USER, RetryHint.NO_RETRY)
    assert error.code.startswith("spark.DATATYPE_MISMATCH")
    assert error.message.startswith('Cannot resolve "substring(tags, 1, 2)"')
    assert "\n" not in error.message
    assert "SQLSTATE" not in error.message
    expression = expression_of(error.message)
    assert expression == "substring(tags, 1, 2)"
    place = located(sql, None, operator=error.operator, expression=expression, message="no")
    assert place is not None
    assert (place.line, place.column) == (9, 10)
    graph = plan(sql)
    assert error.operator is not None
    assert "substring" in str(graph.operator(OperatorId(error.operator)).spec)
