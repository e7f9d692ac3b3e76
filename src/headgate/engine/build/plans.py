"""Projections and aggregations with few words between Python and the JVM.

A plan is rebuilt for every micro-batch out of the same expressions. PySpark sends each of them
anew, in several messages, and lets the JVM parse it again; here the parsed columns stay in the JVM
and a step of the plan is one message. The results are those of `selectExpr`, `where`,
`groupBy().agg()` and `mapInArrow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from headgate.engine.build.sql import quoted
from headgate.engine.reports import ArrowTask


def selected(df: DataFrame, *exprs: str) -> DataFrame:
    """Return `df.selectExpr(*exprs)`."""
    spark = df.sparkSession
    return DataFrame(_jdf(df).select(_jcolumns(spark, exprs)), spark)


def filtered(df: DataFrame, condition: str) -> DataFrame:
    """Return `df.where(condition)`."""
    return df.where(column(df.sparkSession, condition))


def aggregated(df: DataFrame, groups: Sequence[str], aggregates: Sequence[str]) -> DataFrame:
    """Return the `aggregates` of the rows by `groups`, all of them expressions with names."""
    spark = df.sparkSession
    first, *rest = aggregates
    grouped = _jdf(df).groupBy(_jcolumns(spark, tuple(groups)))
    made = grouped.agg(_jcolumn(column(spark, first)), _jcolumns(spark, tuple(rest)))
    return DataFrame(made, spark)


def mapped(
    df: DataFrame, names: Sequence[str], task: ArrowTask, schema: StructType | str
) -> DataFrame:
    """Return `df.mapInArrow(task, schema)`; `names` are the columns of `df`."""
    spark = df.sparkSession
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    function: Any = UserDefinedFunction(task, returnType=schema, evalType=kind)
    made = function._judf.apply(_jcolumns(spark, tuple(quoted(name) for name in names)))
    return DataFrame(_jdf(df).mapInArrow(made, False, None), spark)


# Few of the expressions hold something that changes (the time of ingestion): the cache is bounded,
# and what falls out of it is released in the JVM.
@lru_cache(maxsize=4096)
def column(spark: SparkSession, expr: str) -> Column:
    """Return the parsed expression; `spark` says in which JVM."""
    return F.expr(expr)


@lru_cache(maxsize=1024)
def _jcolumns(spark: SparkSession, exprs: tuple[str, ...]) -> Any:
    jvm: Any = spark.sparkContext._jvm
    # One by one through `F.expr`, so that generators (`inline`) keep the names of their columns.
    return jvm.PythonUtils.toSeq([_jcolumn(F.expr(expr)) for expr in exprs])


def _jdf(df: DataFrame) -> Any:
    return df._jdf


def _jcolumn(column: Column) -> Any:
    return column._jc
