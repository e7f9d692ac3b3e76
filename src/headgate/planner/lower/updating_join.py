"""The inner join of two unwindowed streams: both sides are kept, by their equality keys."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.operators.updating_join.draft import UpdatingJoinDraft
from headgate.planner.drafts.draft import column
from headgate.planner.errors import error_at
from headgate.planner.lower.columns import map_paths, path_name, paths, unqualified
from headgate.planner.lower.context import Context
from headgate.planner.lower.relation import Field, Relation, filtered_draft, unique_names
from headgate.planner.spark_sql import spark_text

_SIDES = {"__in0": "l", "__in1": "r"}
NO_EQUALITY = (
    "Updating joins must include an equijoin condition: write a.key = b.key AND the range beside it"
)
# Text of a path over `__in0` and `__in1` -> ((side, name), the path over the side's input).
Kept = dict[str, tuple[tuple[str, str], exp.Expr]]


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
        raise error_at(at, NO_EQUALITY)
    # The order in which ON names the keys makes no difference to what is kept.
    keys.sort(key=lambda pair: (spark_text(pair[0]), spark_text(pair[1])))
    names = unique_names(f.name for f in fields)
    kept = _kept_paths([*(f.expr for f in fields), *residual])
    outputs = {n: _over_kept(f.expr, kept) for n, f in zip(names, fields, strict=True)}
    draft = UpdatingJoinDraft(
        inputs=[filtered_draft(left).draft, filtered_draft(right).draft],
        types={n: _type(left, right, f) for n, f in zip(names, fields, strict=True)},
        left_keys=[unqualified(a) for a, _ in keys],
        right_keys=[unqualified(b) for _, b in keys],
        left_columns={n: e for (side, n), e in kept.values() if side == "l"},
        right_columns={n: e for (side, n), e in kept.values() if side == "r"},
        residual=_over_kept(exp.and_(*residual), kept) if residual else None,
        outputs=outputs,
        ttl_ms=context.catalog.updating_ttl_ms,
    )
    joined = tuple(replace(f, expr=column(n)) for n, f in zip(names, fields, strict=True))
    return Relation(draft=draft, fields=joined)


def _equality(condition: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return (left, right) of `a = b` if each side reads one input only."""
    inner = condition.this if isinstance(condition, exp.Paren) else condition
    if not isinstance(inner, exp.EQ):
        return None
    sides = [{c.table for c in e.find_all(exp.Column)} for e in (inner.this, inner.expression)]
    if sides == [{"__in0"}, {"__in1"}]:
        return inner.this, inner.expression
    if sides == [{"__in1"}, {"__in0"}]:
        return inner.expression, inner.this
    return None


def _kept_paths(exprs: list[exp.Expr]) -> Kept:
    """Return what the join keeps of both sides, by the text of the path that reads it."""
    found = {text: path for e in exprs for text, path in paths(e).items()}
    kept: Kept = {}
    for side in _SIDES.values():
        texts = sorted(t for t, p in found.items() if _side(p) == side)
        names = unique_names(path_name(found[t]) for t in texts)
        for text, name in zip(texts, names, strict=True):
            kept[text] = ((side, name), unqualified(found[text]))
    return kept


def _side(path: exp.Expr) -> str:
    found = path if isinstance(path, exp.Column) else path.find(exp.Column)
    assert isinstance(found, exp.Column)
    return _SIDES[found.table]


def _over_kept(node: exp.Expr, kept: Kept) -> exp.Expr:
    """Name what is read as the join keeps it: `l_<name>` and `r_<name>`."""
    return map_paths(node, lambda path: column("_".join(kept[spark_text(path)][0])))


def _type(left: Relation, right: Relation, field: Field) -> str | None:
    tables = {c.table for c in field.expr.find_all(exp.Column)}
    relation = left if tables == {"__in0"} else right
    return relation.type_of(unqualified(field.expr))
