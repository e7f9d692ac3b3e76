"""What a projection is: expressions over one input, and a filter."""

from __future__ import annotations

from typing import Literal

from headgate.core.graph import NamedExpr
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec
from headgate.operators.pure.wording import expressions, line


@model
class ProjectSpec(OperatorSpec):
    """`SELECT exprs FROM input WHERE where`. `_timestamp` and `_op` pass through by themselves."""

    kind: Literal["project"] = "project"

    exprs: tuple[NamedExpr, ...]
    where: str | None = None

    def title(self, inputs: int) -> str:
        return "filter and project" if self.where is not None else "project"

    def details(self) -> list[str]:
        return [*expressions("select", self.exprs), *line("where", self.where)]

    def computes(self) -> dict[str, str]:
        return {e.name: e.expr for e in self.exprs}

    def conditions(self) -> tuple[str, ...]:
        return tuple(self.where.split(" AND ")) if self.where else ()
