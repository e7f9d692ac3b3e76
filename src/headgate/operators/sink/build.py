"""A sink: the last frame of a branch, staged by its subtasks."""

from __future__ import annotations

from headgate.core.graph import Operator
from headgate.core.spark_errors import guarded
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.plans import mapped
from headgate.operators.sink.task import SinkSubtask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    (source,) = inputs
    sink = builder.sinks[operator.id]
    rows = sink.prepare(source.df)
    buffers = builder.state.buffers.get(operator.id, ())
    schema, arrow_schema = builder.schema_of(f"{operator.id}/sink", rows)
    if builder.context.barrier and buffers and not source.aligned:
        # The first `parallelism` subtasks stage the buffers: all of them must run. (A range of
        # no numbers would have no partitions either.)
        nothing = [f"CAST(NULL AS {f.dataType.simpleString()}) AS `{f.name}`" for f in schema]
        parallelism = builder.context.parallelism
        padding = builder.spark.range(0, parallelism, 1, parallelism).where("id < 0")
        rows = rows.union(padding.selectExpr(*nothing))
    subtask = SinkSubtask(
        builder.context, operator.id, sink, buffers, arrow_schema, builder.reports
    )
    return Frame(mapped(rows, schema.names, guarded(operator.id, subtask), "done int"))
