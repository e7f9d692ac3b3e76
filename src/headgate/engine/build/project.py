"""Stateless operators: everything Catalyst computes by itself."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headgate.core.graph import Operator, ProjectSpec, SqlSpec
from headgate.engine.build.frame import Frame
from headgate.engine.build.plans import filtered, selected
from headgate.engine.build.sql import hidden_columns, named

if TYPE_CHECKING:
    from headgate.engine.build.builder import Builder


def build_project(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, ProjectSpec)
    (source,) = inputs
    df = source.df if spec.where is None else filtered(source.df, spec.where)
    present = builder.columns_of(f"{operator.id}/input", df)
    hidden = [c for c in hidden_columns(present) if c not in {e.name for e in spec.exprs}]
    return Frame(selected(df, *(named(e) for e in spec.exprs), *hidden), source.aligned)


def build_union(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    # Hidden columns stand last in every frame, so matching by position is right for them too.
    return Frame(reduce(DataFrame.union, (i.df for i in inputs)))


def build_sql(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, SqlSpec)
    for position, source in enumerate(inputs):
        source.df.createOrReplaceTempView(f"__in{position}")
    # The plan is resolved here and now, so the next operator may reuse the view names.
    return Frame(builder.spark.sql(spec.sql))
