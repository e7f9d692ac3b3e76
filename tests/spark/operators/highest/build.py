"""Spark's plan of `highest`: the rows of a key come to its subtask, and records leave it."""

from __future__ import annotations

from pyspark.sql.types import StructType

from headgate.core.graph import TIMESTAMP_COLUMN, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import exchanged_by, hash_columns
from headgate.engine.plan.text import named
from headgate.engine.task.batches import ARRIVAL
from tests.spark.operators.highest.spec import HighestSpec
from tests.spark.operators.highest.task import HighestTask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, HighestSpec)
    (source,) = inputs
    rows = source.df.selectExpr(
        named(spec.key),
        named(spec.value),
        TIMESTAMP_COLUMN,
        f"monotonically_increasing_id() AS {ARRIVAL}",
    )
    keys = [spec.key.name]
    owned = exchanged_by(rows, keys, builder.context.parallelism)
    owned = owned.selectExpr("*", *hash_columns(keys))
    spark_schema, arrow_schema = builder.schema_of(operator.id, owned)
    subtask = builder.stateful(
        operator.id,
        HighestTask(arrow_schema, spec.key.name, spec.value.name),
    )
    names = (spec.key.name, spec.value.name, TIMESTAMP_COLUMN)
    output = StructType([spark_schema[name] for name in names])
    return Frame(owned.mapInArrow(subtask, output), aligned=True)
