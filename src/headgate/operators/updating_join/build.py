"""Updating joins: both sides as one frame, so that they meet in one operator.

The two inputs are put one under the other, each with the columns of the other as nulls, and
exchanged by the join keys. Spark then computes the rest of the condition and the outputs.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headgate.core.graph import TIMESTAMP_COLUMN, NamedExpr, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import exchanged_by, hash_columns
from headgate.engine.plan.plans import mapped
from headgate.engine.plan.text import named, quoted
from headgate.operators.updating_join.spec import UpdatingJoinSpec
from headgate.operators.updating_join.task import LEFT, RIGHT, SIDE, UpdatingJoinTask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, UpdatingJoinSpec)
    left_input, right_input = inputs
    keys = [f"_k{position}" for position in range(len(spec.left_keys))]
    left = _prefixed("l_", spec.left_columns)
    right = _prefixed("r_", spec.right_columns)
    # Spark finds the common types: keys of different types are equal if their values are.
    both = _side(left_input.df, LEFT, keys, spec.left_keys, left, right).union(
        _side(right_input.df, RIGHT, keys, spec.right_keys, left, right)
    )
    # A null key equals nothing.
    known = both.where(" AND ".join(f"{key} IS NOT NULL" for key in keys))
    owned = exchanged_by(known, keys, builder.context.parallelism)
    owned = owned.selectExpr("*", *hash_columns(keys))
    spark_schema, arrow_schema = builder.schema_of(operator.id, owned)
    task = UpdatingJoinTask(
        schema=arrow_schema,
        keys=tuple(keys),
        left=tuple(column.name for column in left),
        right=tuple(column.name for column in right),
        ttl_us=spec.ttl_ms * 1000,
    )
    subtask = builder.stateful(operator.id, task)
    schema = StructType([spark_schema[name] for name in task.output_schema().names])
    owned = builder.at_home(operator.id, owned, keys)
    pairs = mapped(owned, spark_schema.names, subtask, schema)
    if spec.residual is not None:
        pairs = pairs.where(spec.residual)
    output = pairs.selectExpr(
        *(named(o) for o in spec.outputs), f"timestamp_micros(_time) AS {TIMESTAMP_COLUMN}"
    )
    return Frame(output, aligned=True)


def _prefixed(prefix: str, columns: tuple[NamedExpr, ...]) -> list[NamedExpr]:
    return [NamedExpr(name=prefix + column.name, expr=column.expr) for column in columns]


def _side(
    df: DataFrame,
    side: int,
    keys: list[str],
    key_exprs: tuple[str, ...],
    left: list[NamedExpr],
    right: list[NamedExpr],
) -> DataFrame:
    """Return one input in the columns of both, those of the other side null."""

    def columns(of: int, exprs: list[NamedExpr]) -> list[str]:
        return [named(e) if side == of else f"NULL AS {quoted(e.name)}" for e in exprs]

    return df.selectExpr(
        *(f"{expr} AS {key}" for expr, key in zip(key_exprs, keys, strict=True)),
        f"{side} AS {SIDE}",
        *columns(LEFT, left),
        *columns(RIGHT, right),
        f"unix_micros({TIMESTAMP_COLUMN}) AS _time",
    )
