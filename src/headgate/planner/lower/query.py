"""A query of any form: SELECT, UNION, parentheses, WITH."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.lower.context import Context
from headgate.planner.lower.from_clause import Scope, with_columns
from headgate.planner.lower.relation import Relation
from headgate.planner.lower.select import lower_select


def lower_query(context: Context, query: exp.Expr, scope: Scope | None = None) -> Relation:
    """Return the rows that a query makes."""
    scope = scope or Scope(lower_query=lower_query)
    scope = _with_ctes(context, query, scope)
    if isinstance(query, exp.Subquery):
        return lower_query(context, query.this, scope)
    if isinstance(query, exp.Select):
        return lower_select(context, query, scope)
    raise error_at(query, "expected a SELECT")


def _with_ctes(context: Context, query: exp.Expr, scope: Scope) -> Scope:
    with_ = query.args.get("with_")
    if with_ is None:
        return scope
    if with_.args.get("recursive"):
        raise error_at(with_, "WITH RECURSIVE is not supported")
    ctes = dict(scope.ctes)
    for cte in with_.expressions:
        inner = Scope(lower_query=scope.lower_query, ctes=dict(ctes))
        relation = lower_query(context, cte.this, inner)
        alias = cte.args["alias"]
        ctes[alias.name.lower()] = with_columns(relation, alias.columns)
    return Scope(lower_query=scope.lower_query, ctes=ctes)
