"""Expressions as Spark SQL text."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.generators.spark import SparkGenerator

from headgate.planner.errors import error_at
from headgate.planner.types import spark_type


class _Generator(SparkGenerator):
    """Spark's generator, with the types as the planner maps them."""

    TRANSFORMS: ClassVar = {**SparkGenerator.TRANSFORMS}

    def datatype_sql(self, expression: exp.DataType) -> str:
        return spark_type(expression).upper()

    def identifier_sql(self, expression: exp.Identifier) -> str:
        name = str(expression.this)
        plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
        if plain and name.upper() not in _KEYWORDS:
            return name
        return "`" + name.replace("`", "``") + "`"


class _SparkSql(Spark):
    Generator = _Generator


# Words that mean something inside a Spark expression: as names they are quoted.
_KEYWORD_WORDS = """
ALL AND ANTI ANY ARRAY AS ASC BETWEEN BOTH BY CASE CAST CHECK COLLATE COLUMN CONSTRAINT
CREATE CROSS CUBE CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATE DAY DESC
DISTINCT DIV ELSE END ESCAPE EXCEPT EXISTS EXTRACT FALSE FETCH FILTER FIRST FOR FROM FULL
FUNCTION GROUP GROUPING HAVING HOUR IF IN INNER INTERSECT INTERVAL INTO IS JOIN LAST LATERAL
LEADING LEFT LIKE ILIKE LIMIT MAP MINUS MINUTE MONTH NATURAL NOT NULL NULLS OF OFFSET ON ONLY OR
ORDER OUTER OVER OVERLAPS OVERLAY PARTITION POSITION QUALIFY RANGE REGEXP RIGHT RLIKE ROLLUP ROW
ROWS SECOND SELECT SEMI SET SOME SORT START STRUCT SUBSTR SUBSTRING TABLE THEN TIME TIMESTAMP
TIMESTAMP_LTZ TIMESTAMP_NTZ TO TRAILING TRANSFORM TRIM TRUE UNION UNIQUE UNKNOWN UNPIVOT USER
USING VALUES WHEN WHERE WINDOW WITH WITHIN YEAR
"""
# What looks like a function call but is syntax.
_SYNTAX = frozenset({"CAST", "TRY_CAST", "EXTRACT", "TRIM", "INTERVAL", "EXISTS", "CASE", "NOT"})
_KEYWORDS = frozenset(_KEYWORD_WORDS.split())
# Functions by sqlglot's book, but syntax in Spark. They may be long, and their text is of no use.
_NO_FUNCTIONS = (exp.Connector, exp.Case, exp.If, exp.Cast)


def generated_name(node: exp.Expr) -> str | None:
    """Return the name by which Spark will be asked for a function that sqlglot understood."""
    if isinstance(node, _NO_FUNCTIONS):
        return None
    match = re.match(r"([A-Za-z_][A-Za-z_0-9]*)\(", spark_text(node))
    return match[1].lower() if match and match[1].upper() not in _SYNTAX else None


def spark_text(node: exp.Expr, **options: Any) -> str:
    """Return the Spark SQL text of an expression or a query."""
    try:
        return node.sql(
            dialect=_SparkSql,
            unsupported_level=ErrorLevel.IMMEDIATE,
            comments=False,
            normalize_functions="lower",
            **options,
        )
    except UnsupportedError as error:
        raise error_at(node, f"not supported in Spark SQL: {error}") from error
