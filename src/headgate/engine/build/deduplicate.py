"""Deduplication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from headgate.core.graph import TIMESTAMP_COLUMN, DeduplicateSpec, Operator
from headgate.engine.batch.reports import guarded
from headgate.engine.build.frame import Frame
from headgate.engine.build.keys import exchanged_by, hash_columns
from headgate.engine.build.sql import named
from headgate.engine.operators.deduplicate import ARRIVAL, DeduplicateTask
from headgate.engine.operators.subtask import StatefulSubtask

if TYPE_CHECKING:
    from headgate.engine.build.builder import Builder


def build_deduplicate(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
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
    subtask = StatefulSubtask(
        context=builder.context,
        operator=operator.id,
        versions=builder.state.versions(operator.id),
        reports=builder.reports,
        task=DeduplicateTask(
            schema=arrow_schema,
            keys=tuple(keys),
            output=pa.schema([arrow_schema.field(name) for name in names]),
            ttl_us=spec.ttl_ms * 1000,
        ),
    )
    output = StructType([spark_schema[name] for name in names])
    return Frame(owned.mapInArrow(guarded(operator.id, subtask), output), aligned=True)
