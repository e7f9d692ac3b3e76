"""The inner join of two unwindowed streams: both sides are kept, by their equality keys."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.lower.columns import map_columns, unqualified
from headgate.planner.lower.context import Context
from headgate.planner.lower.draft import Exprs, UpdatingJoinDraft, column
from headgate.planner.lower.relation import Field, Relation, filtered_draft, unique_names

_SIDES = {"__in0": "l_", "__in1": "r_"}


def lower_updating_join(
    context: Context,
    left: Relation,
    right: Relation,
    conditions: list[exp.Expr],
    fields: tuple[Field, ...],
    at: exp.Expr,
) -> Relation:
    """Return the joined rows; `fields` and `conditions` are over `__in0` and `__in1`."""
    keys: list[tuple[exp.Expr, exp.Expr]] = []
    residual: list[exp.Expr] = []
    for condition in conditions:
        pair = _equality(condition)
        if pair is None:
            residual.append(condition)
        else:
            keys.append(pair)
    if not keys:
        raise error_at(at, "Updating joins must include an equijoin condition")
    names = unique_names(f.name for f in fields)
    outputs = {n: _kept(f.expr) for n, f in zip(names, fields, strict=True)}
    draft = UpdatingJoinDraft(
        inputs=[filtered_draft(left).draft, filtered_draft(right).draft],
        types={n: _type(left, right, f) for n, f in zip(names, fields, strict=True)},
        left_keys=[unqualified(a) for a, _ in keys],
        right_keys=[unqualified(b) for _, b in keys],
        left_columns=_columns(fields, residual, "__in0"),
        right_columns=_columns(fields, residual, "__in1"),
        residual=_kept(exp.and_(*residual)) if residual else None,
        outputs=outputs,
        ttl_ms=context.catalog.updating_ttl_ms,
    )
    joined = tuple(replace(f, expr=column(n)) for n, f in zip(names, fields, strict=True))
    return Relation(draft=draft, fields=joined)


def _equality(condition: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return (left, right) of `a = b` where each side reads one input only."""
    inner = condition.this if isinstance(condition, exp.Paren) else condition
    if not isinstance(inner, exp.EQ):
        return None
    sides = [{c.table for c in e.find_all(exp.Column)} for e in (inner.this, inner.expression)]
    if sides == [{"__in0"}, {"__in1"}]:
        return inner.this, inner.expression
    if sides == [{"__in1"}, {"__in0"}]:
        return inner.expression, inner.this
    return None


def _columns(fields: tuple[Field, ...], residual: list[exp.Expr], side: str) -> Exprs:
    """Return the input columns of one side that the join must be able to give back."""
    found = {
        c.name: column(c.name)
        for e in [*(f.expr for f in fields), *residual]
        for c in e.find_all(exp.Column)
        if c.table == side
    }
    return dict(sorted(found.items()))


def _kept(node: exp.Expr) -> exp.Expr:
    """Name the columns of both sides as the join keeps them: `l_<name>` and `r_<name>`."""
    return map_columns(node, lambda c: column(f"{_SIDES[c.table]}{c.name}"))


def _type(left: Relation, right: Relation, field: Field) -> str | None:
    tables = {c.table for c in field.expr.find_all(exp.Column)}
    relation = left if tables == {"__in0"} else right
    return relation.type_of(unqualified(field.expr))
