"""A source: the rows between two positions, with their event time, observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN, Operator, SourceSpec
from headgate.engine.build.sql import named, quoted

if TYPE_CHECKING:
    from headgate.engine.build.frame import Builder, Frame

BAD_COLUMN = "_bad"


def build_source(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    from headgate.engine.build.frame import Frame

    spec = operator.spec
    assert isinstance(spec, SourceSpec)
    cut = builder.request.cut
    start, end = cut.start[operator.id], cut.end[operator.id]
    parallelism = builder.context.parallelism
    if start == end:
        return Frame(
            _filtered(spec, _with_event_time(spec, _empty(builder, spec), cut.now_ms), False)
        )
    rows = builder.sources[operator.id].read(builder.spark, start, end, parallelism)
    df = _with_event_time(spec, rows, cut.now_ms)
    bad = BAD_COLUMN in builder.columns_of(operator.id, df)
    shared = len(builder.graph.consumers(operator.id)) > 1
    if shared:
        # Metrics of a persisted plan are lost, so the plan is observed above it, by one consumer.
        df = builder.persist(df)
    observed = Frame(_filtered(spec, _observed(builder, operator, spec, df, bad), bad))
    builder.observed_once[operator.id] = observed
    return Frame(_filtered(spec, df, bad)) if shared else observed


def _filtered(spec: SourceSpec, df: DataFrame, bad: bool) -> DataFrame:
    if bad:
        df = df.where(f"NOT {BAD_COLUMN}").drop(BAD_COLUMN)
    return df if spec.where is None else df.where(spec.where)


def _empty(builder: Builder, spec: SourceSpec) -> DataFrame:
    columns = [f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in spec.columns]
    if spec.updating:
        columns.append(f"CAST(NULL AS INT) AS {OP_COLUMN}")
    return builder.spark.range(0, 0, 1, builder.context.parallelism).selectExpr(*columns)


def _with_event_time(spec: SourceSpec, rows: DataFrame, now_ms: int) -> DataFrame:
    # One SELECT: Spark resolves a column that an earlier item of the same list defines.
    event_time = spec.event_time or f"timestamp_millis({now_ms})"
    return rows.selectExpr(
        "*",
        *(named(computed) for computed in spec.computed),
        f"{event_time} AS {TIMESTAMP_COLUMN}",
    )


def _observed(
    builder: Builder, operator: Operator, spec: SourceSpec, df: DataFrame, bad: bool
) -> DataFrame:
    """Have Spark count the rows and find the greatest watermark in passing, before any filter."""
    observation = Observation()
    builder.observations[operator.id] = observation
    bad_rows = f"count_if({BAD_COLUMN})" if bad else "CAST(0 AS BIGINT)"
    return df.observe(
        observation,
        F.expr(f"max(unix_micros({spec.watermark})) AS watermark"),
        F.expr("count(1) AS rows"),
        F.expr(f"{bad_rows} AS bad"),
    )
