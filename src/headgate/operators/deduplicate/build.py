"""Deduplication."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType

from headgate.core.graph import TIMESTAMP_COLUMN, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import exchanged_by, hash_columns
from headgate.engine.plan.plans import mapped
from headgate.engine.plan.text import named
from headgate.engine.task.batches import ARRIVAL
from headgate.operators.deduplicate.spec import DeduplicateSpec
from headgate.operators.deduplicate.task import DeduplicateTask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, DeduplicateSpec)
    (source,) = inputs
    parallelism = builder.context.parallelism
    # Under names of their own: a key may be called like another column of the output.
    keys = [f"_k{position}" for position in range(len(spec.keys))]
    rows = source.df.selectExpr(
        *(f"{k.expr} AS {name}" for k, name in zip(spec.keys, keys, strict=True)),
        *(named(e) for e in spec.exprs),
        TIMESTAMP_COLUMN,
        f"unix_micros({TIMESTAMP_COLUMN}) AS _time",
        # Before the exchange, which brings rows of different partitions in any order.
        f"monotonically_increasing_id() AS {ARRIVAL}",
    )
    owned = exchanged_by(rows, keys, parallelism).selectExpr("*", *hash_columns(keys))
    spark_schema, arrow_schema = builder.schema_of(operator.id, owned)
    names = [*(e.name for e in spec.exprs), TIMESTAMP_COLUMN]
    subtask = builder.stateful(
        operator.id,
        DeduplicateTask(
            schema=arrow_schema,
            keys=tuple(keys),
            output=pa.schema([arrow_schema.field(name) for name in names]),
            ttl_us=spec.ttl_ms * 1000,
        ),
    )
    output = StructType([spark_schema[name] for name in names])
    owned = builder.at_home(operator.id, owned, keys)
    return Frame(mapped(owned, spark_schema.names, subtask, output), aligned=True)
