"""Windowed aggregates: partial aggregation in Spark, state in the operator, the rest in Spark.

`_time` is the start of a row's bin: the window itself for tumble, one slide for hop. The exchange
is by (keys, bin), which is what a plain `groupBy` of both gives, so every subtask owns whole bins
of whole keys and no second exchange is needed. Hopping windows span bins, so their merged
partials meet once more, after the window has closed.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headgate.core.graph import TIMESTAMP_COLUMN, Hop, Operator, Partial, Session, Tumble
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import TaskError
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.plans import aggregated, mapped, selected
from headgate.engine.plan.text import literal, named, quoted
from headgate.engine.task.merging import MERGED_IN_ARROW, overflow
from headgate.operators.window_aggregate.session_build import build_session_aggregate
from headgate.operators.window_aggregate.spec import WindowAggregateSpec
from headgate.operators.window_aggregate.task import LATE_COLUMN, WindowTask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, WindowAggregateSpec)
    if isinstance(spec.window, Session):
        return build_session_aggregate(builder, operator, inputs)
    (source,) = inputs
    slide, width = bin_width(spec.window), spec.window.width_us
    binned = _binned(spec, source.df, slide, builder.context.parallelism)
    spark_schema, arrow_schema = builder.schema_of(operator.id, binned)
    # What Arrow cannot merge (bit operations) passes unmerged and meets in Spark.
    in_arrow = all(p.merge in MERGED_IN_ARROW for p in spec.partials) and not spec.rows
    subtask = builder.stateful(
        operator.id,
        WindowTask(
            schema=arrow_schema,
            slide=slide,
            width=width,
            keys=tuple(k.name for k in spec.keys),
            merges={p.name: p.merge for p in spec.partials} if in_arrow else None,
        ),
    )
    binned = builder.at_home(operator.id, binned, [*(k.name for k in spec.keys), "_time"])
    closed = mapped(binned, spark_schema.names, subtask, spark_schema)
    keys = [quoted(k.name) for k in spec.keys]
    if spec.rows:
        # Any aggregate at all: the closed windows' rows are aggregated as a batch would.
        merged = aggregated(closed, [*keys, "_time"], [named(o) for o in spec.outputs])
        return Frame(
            selected(merged, *_output(spec, width, [quoted(o.name) for o in spec.outputs]))
        )
    if isinstance(spec.window, Hop) or not in_arrow:
        merges = [_merged(p, operator.id, spark_schema, arrow_schema) for p in spec.partials]
        closed = aggregated(closed, [*keys, "_time"], merges)
    outputs_sql = [named(o) for o in spec.outputs]
    return Frame(selected(closed, *_output(spec, width, outputs_sql)), aligned=True)


def bin_width(window: Tumble | Hop) -> int:
    return window.width_us if isinstance(window, Tumble) else window.slide_us


def _binned(spec: WindowAggregateSpec, df: DataFrame, slide: int, parallelism: int) -> DataFrame:
    """Return (keys, _time, _hash, partials or rows, _n): at the subtask that owns the bin."""
    time = f"unix_micros({TIMESTAMP_COLUMN})"
    bin_start = f"{time} - pmod({time}, {slide}L)"
    keys = [quoted(k.name) for k in spec.keys]
    hashed = f"hash({', '.join([*keys, '_time'])}) AS _hash"
    if spec.rows:
        rows = selected(
            df,
            *(named(k) for k in spec.keys),
            f"{bin_start} AS _time",
            *(named(r) for r in spec.rows if r.name not in {k.name for k in spec.keys}),
        )
        exchanged = rows.repartition(parallelism, *keys, "_time")
        return selected(exchanged, "*", hashed, f"1L AS {LATE_COLUMN}")
    grouped = aggregated(
        df,
        [*(named(k) for k in spec.keys), f"{bin_start} AS _time"],
        [*(named(p) for p in spec.partials), f"count(1) AS {LATE_COLUMN}"],
    )
    return selected(grouped, "*", hashed)


def _merged(
    partial: Partial, operator: OperatorId, spark_schema: StructType, arrow_schema: pa.Schema
) -> str:
    """Return the merge of a partial in Spark. A sum fails as it does in Arrow: see `merging.py`."""
    name = quoted(partial.name)
    kind = arrow_schema.field(partial.name).type
    if partial.merge != "sum" or pa.types.is_floating(kind):
        return f"{partial.merge}({name}) AS {name}"
    error = overflow("sum", kind, "the parts of a window were merged").info()
    refusal = literal(str(TaskError(replace(error, operator=operator))))
    # Spark gives a sum of decimals ten digits more than its parts have.
    total = f"try_cast(try_sum({name}) AS {spark_schema[partial.name].dataType.simpleString()})"
    return f"coalesce({total}, if(count({name}) > 0, raise_error({refusal}), NULL)) AS {name}"


def _output(spec: WindowAggregateSpec, width: int, outputs: list[str]) -> list[str]:
    window = (
        "named_struct('start', timestamp_micros(_time), "
        f"'end', timestamp_micros(_time + {width}L)) AS {quoted(spec.window_name)}"
    )
    return [
        *(quoted(k.name) for k in spec.keys),
        window,
        *outputs,
        f"timestamp_micros(_time + {width - 1}L) AS {TIMESTAMP_COLUMN}",
    ]
