"""Updating aggregates by their rows: any aggregate, computed by Spark before and after."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import NO_KEY, exchanged_by, hash_columns
from headgate.engine.plan.plans import mapped
from headgate.engine.plan.text import named, quoted
from headgate.operators.updating_aggregate.changes import exploded, new, old
from headgate.operators.updating_aggregate.rows_task import (
    AFTER,
    BEFORE,
    TIMES,
    WHICH,
    UpdatingRowsTask,
)
from headgate.operators.updating_aggregate.spec import UpdatingAggregateSpec
from headgate.operators.updating_aggregate.task import HAS_NEW, HAS_OLD


def build_by_rows(
    builder: Builder, operator: Operator, spec: UpdatingAggregateSpec, source: Frame
) -> Frame:
    parallelism = builder.context.parallelism
    keys = [k.name for k in spec.keys]
    kept = [r for r in spec.rows if r.name not in keys]
    rows = source.df.selectExpr(
        *(named(k) for k in spec.keys),
        *(named(r) for r in kept),
        f"CAST({OP_COLUMN if spec.input_updating else 1} AS BIGINT) AS {TIMES}",
        f"unix_micros({TIMESTAMP_COLUMN}) AS _time",
    )
    owned = exchanged_by(rows, keys, parallelism).selectExpr("*", *hash_columns(keys))
    spark_schema, arrow_schema = builder.schema_of(operator.id, owned)
    state_keys = tuple(keys) or (NO_KEY,)
    values = tuple(r.name for r in kept)
    subtask = builder.stateful(
        operator.id,
        UpdatingRowsTask(
            schema=arrow_schema,
            keys=state_keys,
            values=values,
            ttl_us=spec.ttl_ms * 1000,
            input_updating=spec.input_updating,
        ),
        keyed=bool(keys),
    )
    fields = [StructField(name, spark_schema[name].dataType) for name in (*state_keys, *values)]
    fields += [StructField(WHICH, IntegerType()), StructField("_time", LongType())]
    owned = builder.at_home(operator.id, owned, keys)
    bags = mapped(owned, spark_schema.names, subtask, StructType(fields))
    pairs = _pairs(spec, exchanged_by(bags, keys, parallelism), keys)
    schema, _ = builder.schema_of(f"{operator.id}/outputs", pairs)
    changes = exploded(pairs, schema, keys, [o.name for o in spec.outputs])
    return Frame(changes, aligned=bool(keys) or parallelism == 1)


def _pairs(spec: UpdatingAggregateSpec, bags: DataFrame, keys: list[str]) -> DataFrame:
    """Aggregate the rows before and after, and put both results of a key side by side.

    The rows have been exchanged by the keys alone, which serves both groupings.
    """
    by = [quoted(key) for key in keys]
    outputs = [F.expr(o.expr).alias(o.name) for o in spec.outputs]
    newest = F.expr("max(_time)").alias("_time")
    sides = bags.groupBy(*by, WHICH).agg(*outputs, newest)
    columns = []
    for side, which in ((old, BEFORE), (new, AFTER)):
        columns += [
            F.expr(f"first({quoted(o.name)}) FILTER (WHERE {WHICH} = {which})").alias(side(o.name))
            for o in spec.outputs
        ]
    flags = [
        F.expr(f"count_if({WHICH} = {which}) > 0").alias(flag)
        for flag, which in ((HAS_OLD, BEFORE), (HAS_NEW, AFTER))
    ]
    return sides.groupBy(*by).agg(*columns, *flags, newest)
