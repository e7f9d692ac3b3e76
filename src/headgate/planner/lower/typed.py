"""The checker of expressions over the inputs of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from headgate.core.graph import Udf
from headgate.operators.project.draft import ProjectDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import Draft
from headgate.planner.typecheck.check import Checker

# By the qualifier of their columns: empty if there is one input.
Inputs = Mapping[str, Draft | ConnectorTable]


def checker_over(inputs: Inputs, udfs: Iterable[Udf]) -> Checker:
    """Return the checker of expressions over the columns of these inputs."""

    def kind_of(column: exp.Column) -> str | None:
        found = inputs.get(column.table)
        if found is None:
            return None
        types = found.types() if isinstance(found, ConnectorTable) else found.types
        return types.get(column.name)

    def declared(column: exp.Column) -> bool:
        found = inputs.get(column.table)
        return isinstance(found, ConnectorTable) or (
            found is not None and _is_declared(found, column.name)
        )

    return Checker(kind_of, declared, {u.name.lower(): u.returns for u in udfs})


def _is_declared(draft: Draft, name: str) -> bool:
    """Whether a column is one of a table as the user declared it."""
    while isinstance(draft, ProjectDraft):
        expr = draft.exprs.get(name)
        if not isinstance(expr, exp.Column):
            return False
        draft, name = draft.inputs[0], expr.name
    return isinstance(draft, SourceDraft)
