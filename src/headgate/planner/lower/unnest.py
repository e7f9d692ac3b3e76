"""unnest: one row for each element of an array."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.operators.sql.draft import SqlDraft
from headgate.planner.drafts.draft import column
from headgate.planner.errors import error_at
from headgate.planner.lower.columns import qualified
from headgate.planner.lower.context import Context
from headgate.planner.lower.relation import Field, Relation, filtered_draft, unique_names
from headgate.planner.spark_sql import spark_text

_MULTIPLE = "Projection contains multiple unnests, which is not currently supported"


def unnest_calls(nodes: list[exp.Expr]) -> list[exp.Explode]:
    return [n for node in nodes for n in node.find_all(exp.Explode)]


def unnest_items(relation: Relation, exprs: list[exp.Expr]) -> tuple[Relation, list[exp.Expr]]:
    """Return the relation with the unnested column added, and the expressions over it."""
    calls = unnest_calls(exprs)
    for call in calls:
        if call.find_ancestor(exp.Explode) or next(iter(call.this.find_all(exp.Explode)), None):
            raise error_at(call, "Multiple unnests in expression, which is not allowed")
        if spark_text(call) != spark_text(calls[0]):
            raise error_at(call, _MULTIPLE)
    expanded = _expanded(relation, calls[0].this, "unnest", None)
    added = expanded.fields[-1].expr
    result = []
    for expr in exprs:
        copied = expr.copy()
        if isinstance(copied, exp.Explode):
            result.append(added.copy())
            continue
        for call in list(copied.find_all(exp.Explode)):
            call.replace(added.copy())
        result.append(copied)
    return expanded, result


def lower_unnest(
    context: Context, relation: Relation, array: exp.Expr, name: str, table: str | None
) -> Relation:
    """Return the rows of FROM with one array of each unnested into a new column."""
    bound = context.binder(relation.fields, {"": relation.draft}).bind(array)
    return _expanded(relation, bound, name, table)


def _expanded(relation: Relation, array: exp.Expr, name: str, table: str | None) -> Relation:
    source = filtered_draft(relation.with_fields((*relation.fields, Field(name=name, expr=array))))
    passed = [n for n in source.draft.types if n not in (TIMESTAMP_COLUMN, OP_COLUMN)]
    added = unique_names([name], taken=passed)[0]
    columns: dict[str, exp.Expr] = {n: column(n, "__in0") for n in passed}
    columns[added] = exp.Explode(this=qualified(array))
    hidden: dict[str, exp.Expr] = {TIMESTAMP_COLUMN: column(TIMESTAMP_COLUMN, "__in0")}
    if source.updating:
        hidden[OP_COLUMN] = column(OP_COLUMN, "__in0")
    draft = SqlDraft(
        inputs=[source.draft],
        types={**{n: source.draft.types[n] for n in passed}, added: _element_type(relation, array)},
        updating=source.updating,
        body=exp.select().from_("__in0"),
        columns=columns,
        hidden=hidden,
        what="unnest",
        required=(added,),
    )
    unnested = Field(name=name, expr=column(added), table=table)
    return replace(relation, draft=draft, fields=(*relation.fields, unnested), where=())


def _element_type(relation: Relation, array: exp.Expr) -> str | None:
    kind = relation.type_of(array)
    if kind is not None and kind.startswith("array<"):
        return kind.removeprefix("array<")[:-1]
    return None
