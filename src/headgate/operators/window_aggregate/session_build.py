"""Session windows.

Events of one key in one stretch of the length of the gap are less than the gap apart, so they are
in one session whatever else happens. Spark therefore aggregates by (keys, stretch) first, with a
plain hash aggregate, and the operator joins these pieces into sessions.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headgate.core.graph import TIMESTAMP_COLUMN, Operator, Session
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import NO_KEY, exchanged_by, hash_columns
from headgate.engine.plan.plans import aggregated, mapped, selected
from headgate.engine.plan.text import named, quoted
from headgate.operators.window_aggregate.session_task import COUNT, END, START, SessionTask
from headgate.operators.window_aggregate.spec import WindowAggregateSpec

_TIME = f"unix_micros({TIMESTAMP_COLUMN})"


def build_session_aggregate(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, WindowAggregateSpec)
    assert isinstance(spec.window, Session)
    (source,) = inputs
    parallelism = builder.context.parallelism
    keys = [k.name for k in spec.keys]
    values = tuple(r.name for r in spec.rows if r.name not in keys)
    exchange = _rows if spec.rows else _pieces
    pieces = exchange(spec, source.df, spec.window.gap_us, parallelism)
    spark_schema, arrow_schema = builder.schema_of(operator.id, pieces)
    task = SessionTask(
        schema=arrow_schema,
        keys=tuple(keys) or (NO_KEY,),
        merges=None if spec.rows else {p.name: p.merge for p in spec.partials},
        values=values,
    )
    subtask = builder.stateful(operator.id, task, keyed=bool(keys))
    schema = StructType([spark_schema[name] for name in task.output_schema().names])
    pieces = builder.at_home(operator.id, pieces, keys)
    closed = mapped(pieces, spark_schema.names, subtask, schema)
    if spec.rows:
        by = [*(quoted(key) for key in keys), START, END]
        closed = aggregated(closed, by, [named(o) for o in spec.outputs])
        return Frame(selected(closed, *_output(spec, [quoted(o.name) for o in spec.outputs])))
    frame = selected(closed, *_output(spec, [named(o) for o in spec.outputs]))
    return Frame(frame, aligned=bool(keys) or parallelism == 1)


def _pieces(spec: WindowAggregateSpec, df: DataFrame, gap: int, parallelism: int) -> DataFrame:
    """Return (keys, _start, _end, partials, _n, _hash): one row per key and stretch."""
    keys = [k.name for k in spec.keys]
    # Under names of their own beside the input's columns, which the partials are about.
    owned = selected(df, "*", *(f"{k.expr} AS {_own(i)}" for i, k in enumerate(spec.keys)))
    owned = exchanged_by(owned, [_own(i) for i in range(len(keys))], parallelism)
    grouped = aggregated(
        owned,
        [
            *(f"{_own(i)} AS {quoted(key)}" for i, key in enumerate(keys)),
            f"{_TIME} - pmod({_TIME}, {gap}L) AS _stretch",
        ],
        [
            f"min({_TIME}) AS {START}",
            f"max({_TIME}) + {gap}L AS {END}",
            *(named(p) for p in spec.partials),
            f"count(1) AS {COUNT}",
        ],
    )
    return selected(grouped.drop("_stretch"), "*", *hash_columns(keys))


def _rows(spec: WindowAggregateSpec, df: DataFrame, gap: int, parallelism: int) -> DataFrame:
    """Return (keys, _start, _end, rows, _n, _hash): every row is a piece of its own."""
    keys = [k.name for k in spec.keys]
    rows = selected(
        df,
        *(named(k) for k in spec.keys),
        f"{_TIME} AS {START}",
        f"{_TIME} + {gap}L AS {END}",
        *(named(r) for r in spec.rows if r.name not in keys),
        f"1L AS {COUNT}",
    )
    return selected(exchanged_by(rows, keys, parallelism), "*", *hash_columns(keys))


def _own(position: int) -> str:
    return f"_k{position}"


def _output(spec: WindowAggregateSpec, outputs: list[str]) -> list[str]:
    window = (
        f"named_struct('start', timestamp_micros({START}), 'end', timestamp_micros({END})) "
        f"AS {quoted(spec.window_name)}"
    )
    return [
        *(quoted(k.name) for k in spec.keys),
        window,
        *outputs,
        f"timestamp_micros({END} - 1) AS {TIMESTAMP_COLUMN}",
    ]
