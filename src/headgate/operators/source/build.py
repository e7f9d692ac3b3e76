"""A source: the rows between two positions, with their event time, observed."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation

from headgate.connectors.base import (
    BAD_COLUMN,
    BAD_POSITION_COLUMN,
    BAD_RAW_COLUMN,
    BAD_SAMPLE_COLUMN,
    EVENT_TIME_COLUMN,
)
from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.empty import no_rows
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.observed import known_rows
from headgate.engine.plan.plans import column, filtered, selected
from headgate.engine.plan.text import named, quoted
from headgate.operators.source.spec import SourceSpec

# Types that Spark's `hash` refuses, also inside others.
_NOT_HASHED = ("map", "variant", "struct", "array")
_BAD_COLUMNS = (BAD_COLUMN, BAD_SAMPLE_COLUMN, BAD_RAW_COLUMN, BAD_POSITION_COLUMN)


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, SourceSpec)
    cut = builder.request.cut
    start, end = cut.start[operator.id], cut.end[operator.id]
    parallelism = builder.context.parallelism
    if start == end:
        nothing = _with_event_time(spec, _empty(builder, spec), frozenset(), cut.now_ms)
        return Frame(_filtered(spec, nothing, False))
    rows = builder.sources[operator.id].read(builder.spark, start, end, parallelism)
    given = frozenset(builder.columns_of(operator.id, rows))
    df = _with_event_time(spec, rows, given, cut.now_ms)
    bad = BAD_COLUMN in given
    shared = len(builder.graph.consumers(operator.id)) > 1
    if shared:
        # Metrics of a persisted plan are lost, so the plan is observed above it, by one consumer.
        df = builder.persist(df)
        if bad:
            builder.marked[operator.id] = df
    plain = Frame(_filtered(spec, df, bad))
    known = None if bad else known_rows(builder.sources[operator.id], spec, start, end)
    if known is not None:
        builder.known[operator.id] = known
        return plain
    observed = Frame(_filtered(spec, _observed(builder, operator, spec, df, bad), bad))
    builder.observed_once[operator.id] = observed
    return plain if shared else observed


def _filtered(spec: SourceSpec, df: DataFrame, bad: bool) -> DataFrame:
    if bad:
        df = filtered(df, f"NOT {BAD_COLUMN}").drop(*_BAD_COLUMNS)
    return df if spec.where is None else filtered(df, spec.where)


def _empty(builder: Builder, spec: SourceSpec) -> DataFrame:
    columns = [f"{quoted(c.name)} {c.type}" for c in spec.columns]
    columns += [f"{quoted(c.name)} {c.type}" for c in spec.metadata]
    if spec.updating:
        columns.append(f"{OP_COLUMN} INT")
    return no_rows(builder.spark, ", ".join(columns), builder.context.parallelism)


def _with_event_time(
    spec: SourceSpec, rows: DataFrame, given: frozenset[str], now_ms: int
) -> DataFrame:
    """Return the table's columns, the event time and the hidden columns, in this order."""
    event_time = spec.event_time
    if event_time is None and EVENT_TIME_COLUMN in given:
        event_time = EVENT_TIME_COLUMN
    hidden = [c for c in (OP_COLUMN, *_BAD_COLUMNS) if c in given]
    if spec.updating and OP_COLUMN not in hidden:
        hidden.append(OP_COLUMN)
    # One SELECT: Spark resolves a column that an earlier item of the same list defines.
    return selected(
        rows,
        *(quoted(column.name) for column in spec.columns),
        *(quoted(column.name) for column in spec.metadata),
        *(named(computed) for computed in spec.computed),
        f"{event_time or _ingestion_time(spec, now_ms)} AS {TIMESTAMP_COLUMN}",
        *hidden,
    )


def _ingestion_time(spec: SourceSpec, now_ms: int) -> str:
    """Return the time of the cut, in a form that Spark does not compile into its code.

    A plain literal becomes part of the generated class, which would then be compiled anew in every
    micro-batch. An array is passed to it by reference, and the optimizer cannot tell that the
    index, made of any column, is always 1.
    """
    plain = (c.name for c in spec.columns if not c.type.lower().startswith(_NOT_HASHED))
    name = next(plain, None)
    if name is not None:
        number = f"hash({quoted(name)})"
    elif spec.columns:
        number = f"CAST({quoted(spec.columns[0].name)} IS NULL AS INT)"
    else:
        return f"timestamp_millis({now_ms}L)"
    return f"timestamp_millis(element_at(array({now_ms}L), 1 + pmod({number}, 1)))"


def _observed(
    builder: Builder, operator: Operator, spec: SourceSpec, df: DataFrame, bad: bool
) -> DataFrame:
    """Have Spark count the rows and find the greatest watermark in passing, before any filter."""
    observation = Observation()
    builder.observations[operator.id] = observation
    bad_rows = f"count_if({BAD_COLUMN})" if bad else "CAST(0 AS BIGINT)"
    bad_sample = f"max({BAD_SAMPLE_COLUMN})" if bad else "CAST(NULL AS STRING)"
    return df.observe(
        observation,
        column(
            builder.spark,
            f"named_struct('watermark', max(unix_micros({spec.watermark})), 'rows', count(1), "
            f"'bad', {bad_rows}, 'bad_sample', {bad_sample}) AS seen",
        ),
    )
