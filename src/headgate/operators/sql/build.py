"""Any Spark SQL over the inputs: Catalyst computes it by itself."""

from __future__ import annotations

from headgate.core.graph import Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.operators.sql.spec import SqlSpec


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, SqlSpec)
    if len(inputs) > 1 and 1 in builder.subtasks.values():
        # A join does not look at its other side while the first one has no rows, and what has only
        # one partition it reads without an exchange, in its own stage: subtasks would not run.
        pairs = zip(operator.inputs, inputs, strict=True)
        inputs = [builder.in_own_stage(name, frame) for name, frame in pairs]
    for position, source in enumerate(inputs):
        source.df.createOrReplaceTempView(f"__in{position}")
    # The plan is resolved here and now, so the next operator may reuse the view names.
    return Frame(builder.spark.sql(spec.sql))
