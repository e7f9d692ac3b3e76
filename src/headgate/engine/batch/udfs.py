"""The user's Python functions as Spark functions: batches of Arrow in and out, no pandas.

The text of the user's file travels, not its functions: each Python worker runs it once. Aggregates
are functions of lists; Spark collects the lists.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headgate.core.errors import UdfError
from headgate.core.graph import PipelineGraph
from headgate.core.spark_errors import TaskError
from headgate.engine.task.usercode import module_namespace, user_code
from headgate.udf import is_vectorized

FILE_NAME = "udfs.py"


def register_udfs(spark: SparkSession, graph: PipelineGraph) -> None:
    """Make the functions of the graph known to Spark SQL under their names.

    Raises `UdfError` if the user's file cannot be run, or does not define a function.
    """
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    if graph.udf_source is None:
        return
    for declared in graph.udfs:
        _function(graph.udf_source, declared.name)
        returns = DataType.fromDDL(declared.returns)
        arrow_type = to_arrow_type(returns, timezone="UTC")
        body = _Body(graph.udf_source, declared.name, arrow_type)
        if declared.arguments:
            # PySpark's stubs know functions of a fixed number of arguments only.
            function = arrow_udf(body.over_arrays, returns)  # type: ignore[call-overload]
            spark.udf.register(declared.name, function)
        else:
            # Without arguments there is no array that says how many values are wanted.
            spark.udf.register(declared.name, body.once, returns)


def _function(source: str, name: str) -> Callable[..., Any]:
    found = module_namespace(source, FILE_NAME).get(name)
    if not callable(found):
        raise UdfError(f"the UDF file defines no function '{name}'")
    return typing.cast(Callable[..., Any], found)


@dataclass(frozen=True)
class _Body:
    """What runs in the Python workers. Plain data, so that it can be sent there."""

    source: str
    name: str
    returns: pa.DataType

    def over_arrays(self, *columns: pa.Array) -> pa.Array:
        try:
            return self._over_arrays(columns)
        except UdfError as error:
            # Only the text of an exception passes through Spark.
            raise TaskError(error.info()) from error

    def once(self) -> Any:
        try:
            with user_code(f"function {self.name}"):
                return _function(self.source, self.name)()
        except UdfError as error:
            raise TaskError(error.info()) from error

    def _over_arrays(self, columns: tuple[pa.Array, ...]) -> pa.Array:
        function = _function(self.source, self.name)
        if is_vectorized(function):
            with user_code(f"function {self.name}", lambda: [c[:1].to_pylist() for c in columns]):
                return self._as_array(function(*columns))
        skips = null_skips(function, len(columns))
        results: list[Any] = []
        arguments: tuple[Any, ...] = ()
        with user_code(f"function {self.name}", lambda: arguments):
            for arguments in zip(*(column.to_pylist() for column in columns), strict=True):
                skipped = any(s and a is None for s, a in zip(skips, arguments, strict=True))
                results.append(None if skipped else function(*arguments))
        with user_code(f"the result of function {self.name}", lambda: results[:3]):
            return pa.array(results, self.returns)

    def _as_array(self, result: Any) -> pa.Array:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        array = result if isinstance(result, pa.Array) else pa.array(result, self.returns)
        return array if array.type == self.returns else array.cast(self.returns)


def null_skips(function: Callable[..., Any], count: int) -> tuple[bool, ...]:
    """Tell for each argument whether a null in it makes the result null without a call."""
    hints = typing.get_type_hints(function)
    names = list(inspect.signature(function).parameters)[:count]
    return tuple(type(None) not in typing.get_args(hints.get(name)) for name in names)
