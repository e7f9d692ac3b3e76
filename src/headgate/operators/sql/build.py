"""Any Spark SQL over the inputs: Catalyst computes it by itself."""

from __future__ import annotations

from headgate.core.graph import Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.operators.sql.spec import SqlSpec


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, SqlSpec)
    for position, source in enumerate(inputs):
        source.df.createOrReplaceTempView(f"__in{position}")
    # The plan is resolved here and now, so the next operator may reuse the view names.
    return Frame(builder.spark.sql(spec.sql))
