"""What the planner's checker of types knows of Spark's functions is what Spark says of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.core.errors import SqlError
from headgate.planner.parse import parse_statements
from headgate.planner.rewrites import rewrite
from headgate.planner.spark_functions import SPARK_FUNCTIONS
from headgate.planner.statements import Unparsed
from headgate.planner.typecheck.check import Checker
from headgate.planner.typecheck.facts import FACTS_FILE, NOT_ASKED, OPERATORS
from tests.support.function_facts import asker, facts_of
from tests.unit.planner.planner_world import only, planned
from tests.unit.planner.typecheck.test_valid_expressions import EXPRESSIONS

pytestmark = pytest.mark.verify

# All of them take ten minutes, and change only with a version of Spark.
EVERY = 25
OPERATORS_EVERY = 6
RIDES = """
at TIMESTAMP, driver BIGINT, kind STRING, place STRING, fare DECIMAL(10,2), tip FLOAT,
meters DOUBLE, seats INT, tags ARRAY<STRING>, info STRUCT<a: INT, b: STRUCT<c: STRING>>,
payload STRING, paid BOOLEAN, _timestamp TIMESTAMP
"""


@pytest.fixture
def quiet() -> Iterator[None]:
    """PySpark writes every refusal with its stack."""
    logger = logging.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    yield
    logger.disabled = False


def test_the_facts_are_what_spark_says(spark: SparkSession, quiet: None) -> None:
    facts = json.loads(FACTS_FILE.read_text())
    assert facts["spark"] == spark.version, "run python -m tests.support.function_facts"
    assert set(facts["functions"]) == SPARK_FUNCTIONS - NOT_ASKED
    names = sorted({*sorted(facts["functions"])[::EVERY], "ceil", "floor", "mode", "upper", "sum"})
    found = facts_of(asker(spark), names, list(OPERATORS)[::OPERATORS_EVERY])
    assert found["functions"] == {name: facts["functions"][name] for name in names}
    assert found["operators"] == {sign: facts["operators"][sign] for sign in found["operators"]}


def test_spark_takes_the_expressions_that_must_not_be_refused(
    spark: SparkSession, quiet: None
) -> None:
    spark.createDataFrame([], RIDES).createOrReplaceTempView("rides")
    refused = {}
    for written in EXPRESSIONS:
        graph = planned(f"SELECT {written} AS x FROM rides")
        text = only(graph, "project").spec.exprs[0].expr
        try:
            spark.sql(f"SELECT {text} AS x FROM rides")
        except PySparkException as error:
            refused[written] = str(error).splitlines()[0]
    assert refused == {}


def test_the_examples_of_sparks_documentation_are_not_refused(
    spark: SparkSession, quiet: None
) -> None:
    checked = examples(spark)
    refused = {example: wrong for example in checked if (wrong := refusal(example)) is not None}
    assert len(checked) > 800
    # Some are there to show an error.
    assert {e: wrong for e, wrong in refused.items() if taken(spark, e)} == {}


def examples(spark: SparkSession) -> list[str]:
    """Return the examples of all functions as `DESCRIBE FUNCTION EXTENDED` shows them."""
    jvm: Any = spark._jvm
    infos = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    texts = [i.getExamples().replace("_FUNC_", i.getName()) for i in infos]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [line[2:].rstrip(";") for line in lines if line.startswith("> SELECT")]


def refusal(example: str) -> str | None:
    """Return why the checker refuses an example; what the parser does not read is not its case."""
    try:
        (statement,) = parse_statements(example)
        if isinstance(statement, Unparsed):
            return None
        tree = rewrite(statement)
    except SqlError:
        return None
    try:
        for expression in tree.args.get("expressions") or []:
            Checker().check(expression)
    except SqlError as error:
        return error.message
    return None


def taken(spark: SparkSession, example: str) -> bool:
    """Whether Spark itself can plan the example: some are there to show an error."""
    try:
        spark.sql(example)
    except PySparkException:
        return False
    return True
