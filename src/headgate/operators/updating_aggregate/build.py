"""Updating aggregates: partial aggregation in Spark, state in the operator, outputs in Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from headgate.core.graph import TIMESTAMP_COLUMN, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import NO_KEY, hash_columns
from headgate.engine.plan.plans import aggregated, filtered, mapped, selected
from headgate.engine.plan.text import named, quoted
from headgate.operators.updating_aggregate.changes import exploded, new, old
from headgate.operators.updating_aggregate.rename import renamed
from headgate.operators.updating_aggregate.rows_build import build_by_rows
from headgate.operators.updating_aggregate.spec import UpdatingAggregateSpec
from headgate.operators.updating_aggregate.task import HAS_NEW, HAS_OLD, UpdatingTask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, UpdatingAggregateSpec)
    (source,) = inputs
    if not spec.partials:
        return build_by_rows(builder, operator, spec, source)
    grouped = _grouped(spec, source.df)
    spark_schema, arrow_schema = builder.schema_of(operator.id, grouped)
    keys = tuple(k.name for k in spec.keys) or (NO_KEY,)
    subtask = builder.stateful(
        operator.id,
        UpdatingTask(
            schema=arrow_schema,
            keys=keys,
            merges={p.name: p.merge for p in spec.partials},
            ttl_us=spec.ttl_ms * 1000,
            input_updating=spec.input_updating,
        ),
        keyed=bool(spec.keys),
    )
    pairs = mapped(
        builder.at_home(operator.id, grouped, [k.name for k in spec.keys]),
        spark_schema.names,
        subtask,
        _pair_schema(spec, spark_schema),
    )
    computed = _outputs(spec, pairs)
    output_schema, _ = builder.schema_of(f"{operator.id}/outputs", computed)
    changes = exploded(
        computed, output_schema, [k.name for k in spec.keys], [o.name for o in spec.outputs]
    )
    return Frame(changes, aligned=bool(spec.keys) or builder.context.parallelism == 1)


def _grouped(spec: UpdatingAggregateSpec, df: DataFrame) -> DataFrame:
    """Return (keys, partials, _time, _hash), each key once, at the subtask that owns it."""
    newest = f"max(unix_micros({TIMESTAMP_COLUMN})) AS _time"
    partials = [*(named(p) for p in spec.partials), newest]
    if spec.keys:
        grouped = aggregated(df, [named(k) for k in spec.keys], partials)
    else:
        # Spark makes one row even of no rows at all: that is no change.
        counted = aggregated(df, [], [*partials, "count(1) AS _n"])
        grouped = filtered(counted, "_n > 0").drop("_n")
    return selected(grouped, "*", *hash_columns([k.name for k in spec.keys]))


def _pair_schema(spec: UpdatingAggregateSpec, grouped: StructType) -> StructType:
    keys = [k.name for k in spec.keys] or [NO_KEY]
    fields = [StructField(key, grouped[key].dataType) for key in keys]
    for side in (old, new):
        fields += [StructField(side(p.name), grouped[p.name].dataType) for p in spec.partials]
    fields += [StructField(HAS_OLD, BooleanType()), StructField(HAS_NEW, BooleanType())]
    return StructType([*fields, StructField("_time", LongType())])


def _outputs(spec: UpdatingAggregateSpec, pairs: DataFrame) -> DataFrame:
    """Compute every output twice: over the old and over the new partials."""
    columns = [quoted(k.name) for k in spec.keys]
    for side, exists in ((old, HAS_OLD), (new, HAS_NEW)):
        names = tuple((p.name.lower(), side(p.name)) for p in spec.partials)
        columns += [
            # An expression over partials that do not exist might fail, on a division for example.
            f"CASE WHEN {exists} THEN {renamed(o.expr, names)} END AS {quoted(side(o.name))}"
            for o in spec.outputs
        ]
    return selected(pairs, *columns, HAS_OLD, HAS_NEW, "_time")
