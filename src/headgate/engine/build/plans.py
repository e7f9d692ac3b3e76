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

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructType
from pyspark.util import PythonEvalType

from headgate.engine.build.sql import quoted
from headgate.engine.reports import ArrowTask

# A longer function travels as a broadcast.
BROADCAST_BYTES = 1 << 20


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
    made = _functions(spark).make(task, schema)
    call = made.apply(_jcolumns(spark, tuple(quoted(name) for name in names)))
    return DataFrame(_jdf(df).mapInArrow(call, False, None), spark)


class _Functions:
    """Makes the JVM's half of a Python function, out of parts that stay in the JVM."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        jvm = context._jvm
        self._session: Any = spark._jsparkSession
        self._context = context
        self._pickle: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        self._nothing = jvm.java.util.ArrayList()
        self._environment = jvm.java.util.HashMap()
        for name, value in context.environment.items():
            self._environment.put(name, value)
        self._python_function = jvm.SimplePythonFunction
        self._function = jvm.org.apache.spark.sql.execution.python.UserDefinedPythonFunction
        self._types: dict[str, tuple[DataType, Any]] = {}

    def make(self, task: ArrowTask, schema: StructType | str) -> Any:
        returned, jtype = self._type_of(schema)
        command = self._pickle.dumps((task, returned))
        broadcasts: Any = self._nothing
        if len(command) > BROADCAST_BYTES:
            broadcast = self._context.broadcast(command)
            command = self._pickle.dumps(broadcast)
            broadcasts = [b._jbroadcast for b in self._context._pickled_broadcast_vars]
            self._context._pickled_broadcast_vars.clear()
        function = self._python_function(
            bytearray(command),
            self._environment,
            self._context._python_includes or self._nothing,
            self._context.pythonExec,
            self._context.pythonVer,
            broadcasts,
            self._context._javaAccumulator,
        )
        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        nothing = self._nothing
        return self._function("headgate", function, jtype, kind, True, nothing, nothing)

    def _type_of(self, schema: StructType | str) -> tuple[DataType, Any]:
        key = schema if isinstance(schema, str) else schema.json()
        if key not in self._types:
            parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
            self._types[key] = (parsed, self._session.parseDataType(parsed.json()))
        return self._types[key]


@lru_cache(maxsize=4)
def _functions(spark: SparkSession) -> _Functions:
    return _Functions(spark)


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
