"""Steps of a plan with few words between Python and the JVM, and looked at only once.

A plan is rebuilt for every micro-batch out of the same expressions. PySpark sends each of them
anew, in several messages, and lets Catalyst resolve the whole plan again after every step. Here the
parsed expressions stay in the JVM, a step is one new node of a logical plan, and Catalyst resolves
the plan when somebody needs a DataFrame of it: mostly at the end. The results are those of
`selectExpr`, `where`, `groupBy().agg()` and `mapInArrow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

from headgate.engine.batch.reports import ArrowTask
from headgate.engine.plan.text import quoted

# A longer function travels as a broadcast.
BROADCAST_BYTES = 1 << 20


def selected(df: DataFrame, *exprs: str) -> DataFrame:
    """Return `df.selectExpr(*exprs)`."""
    catalyst = _catalyst(df.sparkSession)
    return Planned(catalyst.project(catalyst.named(exprs), logical_plan(df)), df.sparkSession)


def filtered(df: DataFrame, condition: str) -> DataFrame:
    """Return `df.where(condition)`."""
    catalyst = _catalyst(df.sparkSession)
    return Planned(
        catalyst.filter(catalyst.expression(condition), logical_plan(df)), df.sparkSession
    )


def aggregated(df: DataFrame, groups: Sequence[str], aggregates: Sequence[str]) -> DataFrame:
    """Return the `aggregates` of the rows by `groups`, all of them expressions with names."""
    catalyst = _catalyst(df.sparkSession)
    by, columns = catalyst.expressions(tuple(groups)), catalyst.named((*groups, *aggregates))
    plan = catalyst.aggregate(by, columns, logical_plan(df), catalyst.nothing)
    return Planned(plan, df.sparkSession)


def mapped(
    df: DataFrame, names: Sequence[str], task: ArrowTask, schema: StructType | str
) -> DataFrame:
    """Return `df.mapInArrow(task, schema)`; `names` are the columns of `df`."""
    catalyst = _catalyst(df.sparkSession)
    call, returned = catalyst.call(task, schema, tuple(quoted(name) for name in names))
    plan = catalyst.map_in_arrow(
        call,
        catalyst.attributes(returned),
        logical_plan(df),
        False,
        catalyst.nothing,
    )
    return Planned(plan, df.sparkSession)


def parsed_type(spark: SparkSession, schema: StructType | str) -> Any:
    """Return a schema as the JVM knows it."""
    return _catalyst(spark).type_of(schema)[1]


@lru_cache(maxsize=4096)
def column(spark: SparkSession, expr: str) -> Column:
    """Return the parsed expression; `spark` says in which JVM."""
    return F.expr(expr)


def forget_sent(spark: SparkSession) -> None:
    """Remove the functions that were too long to travel with every task: nobody runs them now."""
    sent = _catalyst(spark).sent
    while sent:
        sent.pop().destroy()


class Planned(ClassicDataFrame):
    """A DataFrame that Catalyst has not looked at: a logical plan, resolved when it is asked."""

    def __init__(self, plan: Any, spark: SparkSession) -> None:
        self.plan = plan
        self._resolved: Any = None
        super().__init__(None, spark)

    @property
    def _jdf(self) -> Any:
        if self._resolved is None:
            self._resolved = _catalyst(self._session).resolve(self.plan)
            self.plan = self._resolved.logicalPlan()
        return self._resolved

    @_jdf.setter
    def _jdf(self, nothing: Any) -> None:
        """Take what the parent class sets: there is none yet."""

    def drop(self, *cols: Any) -> DataFrame:
        """Return the frame without these columns; names that it does not have are no matter."""
        catalyst = _catalyst(self._session)
        names = catalyst.expressions(tuple(quoted(name) for name in cols))
        return Planned(catalyst.drop(names, self.plan), self._session)


def logical_plan(df: DataFrame) -> Any:
    """Return the plan of a frame, resolved or not."""
    return df.plan if isinstance(df, Planned) else df._jdf.logicalPlan()


class _Catalyst:
    """What plans are made of, in the JVM of one session: looked up once, parsed once."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        jvm = context._jvm
        sql = jvm.org.apache.spark.sql
        logical = sql.catalyst.plans.logical
        self._spark = spark
        self._context = context
        self._session: Any = spark._jsparkSession
        self._dataset = sql.classic.Dataset
        self._utils = jvm.PythonUtils
        self._naming = sql.classic.ExpressionUtils
        self.project = logical.Project
        self.filter = logical.Filter
        self.aggregate = logical.Aggregate
        self.drop = logical.DataFrameDropColumns
        self.map_in_arrow = logical.MapInArrow
        self.attributes = sql.catalyst.types.DataTypeUtils.toAttributes
        self.nothing = jvm.scala.Option.empty()
        self._python_function = jvm.SimplePythonFunction
        self._function = sql.execution.python.UserDefinedPythonFunction
        self._pickle: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        self._no_list = jvm.java.util.ArrayList()
        self._environment = jvm.java.util.HashMap()
        for name, value in context.environment.items():
            self._environment.put(name, value)
        # Few of the expressions hold something that changes (the time of ingestion): the caches are
        # bounded, and what falls out of them is released in the JVM.
        self.expression = lru_cache(4096)(self._expression)
        self.expressions = lru_cache(1024)(self._expressions)
        self.named = lru_cache(1024)(self._named)
        self.columns = lru_cache(1024)(self._columns)
        self._types: dict[str, tuple[Any, Any]] = {}
        # Functions that travel as broadcasts, each of which is a file until it is destroyed.
        self.sent: list[Any] = []

    def resolve(self, plan: Any) -> Any:
        return self._dataset.ofRows(self._session, plan)

    def _expression(self, expr: str) -> Any:
        return self._session.expression(column(self._spark, expr)._jc)

    def _expressions(self, exprs: tuple[str, ...]) -> Any:
        return self._utils.toSeq([self.expression(expr) for expr in exprs])

    def _named(self, exprs: tuple[str, ...]) -> Any:
        return self._utils.toSeq([self._named_expression(expr) for expr in exprs])

    def _named_expression(self, expr: str) -> Any:
        return self._naming.toNamed(self.expression(expr))

    def _columns(self, exprs: tuple[str, ...]) -> Any:
        return self._utils.toSeq([column(self._spark, expr)._jc for expr in exprs])

    def call(
        self, task: ArrowTask, schema: StructType | str, columns: tuple[str, ...]
    ) -> tuple[Any, Any]:
        """Return the call of a Python function, as an expression, and the type that it returns."""
        returned, jtype = self.type_of(schema)
        command = self._pickle.dumps((task, returned))
        broadcasts: Any = self._no_list
        if len(command) > BROADCAST_BYTES:
            sent = self._context.broadcast(command)
            self.sent.append(sent)
            command = self._pickle.dumps(sent)
            broadcasts = [b._jbroadcast for b in self._context._pickled_broadcast_vars]
            self._context._pickled_broadcast_vars.clear()
        python = self._python_function(
            bytearray(command),
            self._environment,
            self._context._python_includes or self._no_list,
            self._context.pythonExec,
            self._context.pythonVer,
            broadcasts,
            self._context._javaAccumulator,
        )
        kind, none = PythonEvalType.SQL_MAP_ARROW_ITER_UDF, self._no_list
        function = self._function("headgate", python, jtype, kind, True, none, none)
        return self._session.expression(function.apply(self.columns(columns))), jtype

    def type_of(self, schema: StructType | str) -> tuple[Any, Any]:
        """Return a schema as Python and as the JVM know it."""
        key = str(schema)
        if key not in self._types:
            parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
            self._types[key] = (parsed, self._session.parseDataType(parsed.json()))
        return self._types[key]


@lru_cache(maxsize=4)
def _catalyst(spark: SparkSession) -> _Catalyst:
    return _Catalyst(spark)
