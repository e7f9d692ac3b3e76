"""A query of any form: SELECT, UNION, parentheses, WITH."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.planner.drafts.draft import column
from headgate.planner.errors import Errors, error_at
from headgate.planner.lower.context import Context
from headgate.planner.lower.distinct import distinct
from headgate.planner.lower.from_clause import Scope, with_columns
from headgate.planner.lower.relation import Relation, computed, unique_names
from headgate.planner.lower.select import check_clauses, lower_select
from headgate.planner.lower.sinks import union_of


def lower_query(context: Context, query: exp.Expr, scope: Scope | None = None) -> Relation:
    """Return the rows that a query makes."""
    scope = scope or Scope(lower_query=lower_query)
    scope = _with_ctes(context, query, scope)
    if isinstance(query, exp.Subquery):
        check_clauses(query)
        return lower_query(context, query.this, scope)
    if isinstance(query, exp.Union):
        return _union(context, query, scope)
    if isinstance(query, exp.Select):
        return lower_select(context, query, scope)
    if isinstance(query, exp.Except | exp.Intersect):
        raise error_at(query, f"{type(query).__name__.upper()} is not supported")
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


def _union(context: Context, query: exp.Union, scope: Scope) -> Relation:
    check_clauses(query)
    if query.args.get("by_name"):
        raise error_at(query, "UNION BY NAME is not supported: columns match by position")
    errors, sides = Errors(), []
    for side in (query.left, query.right):
        with errors.caught():
            sides.append(lower_query(context, side, scope))
    errors.raise_any()
    _check_sides(sides, query)
    names = unique_names(f.name for f in sides[0].fields)
    drafts = [computed(side, names).draft for side in sides]
    fields = tuple(
        replace(f, expr=column(n), table=None, is_window=f.is_window and g.is_window)
        for n, f, g in zip(names, sides[0].fields, sides[1].fields, strict=True)
    )
    result = Relation(draft=union_of(drafts), fields=fields, window=sides[0].window)
    return distinct(context, result, query) if query.args.get("distinct") else result


def _check_sides(sides: list[Relation], query: exp.Union) -> None:
    left, right = sides
    if len(left.fields) != len(right.fields):
        raise error_at(
            query.right,
            f"the sides of UNION have {len(left.fields)} and {len(right.fields)} columns",
        )
    if left.window != right.window:
        raise error_at(query.right, "can't handle mixed windowing between the sides of UNION")
