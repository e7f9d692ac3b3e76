"""A projection: Catalyst computes it by itself."""

from __future__ import annotations

from headgate.core.graph import Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.plans import filtered, selected
from headgate.engine.plan.text import hidden_columns, named
from headgate.operators.project.spec import ProjectSpec


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, ProjectSpec)
    (source,) = inputs
    df = source.df if spec.where is None else filtered(source.df, spec.where)
    present = builder.columns_of(f"{operator.id}/input", df)
    hidden = [c for c in hidden_columns(present) if c not in {e.name for e in spec.exprs}]
    return Frame(selected(df, *(named(e) for e in spec.exprs), *hidden), source.aligned)
