"""A union: one frame after the other."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from headgate.core.graph import Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    pairs = zip(operator.inputs, inputs, strict=True)
    branches = [builder.in_own_stage(name, frame).df for name, frame in pairs]
    # Hidden columns stand last in every frame, so matching by position is right for them too.
    return Frame(reduce(DataFrame.union, branches))
