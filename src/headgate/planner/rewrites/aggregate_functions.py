"""Aggregate functions by the names that users of Arroyo and Postgres know."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call

_NAMES = {
    "var": "var_samp",
    "var_sample": "var_samp",
    "var_population": "var_pop",
    "covar": "covar_samp",
    "std": "stddev",
}


def rewrite_aggregate(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Filter):
        return _filter_inside(node)
    if isinstance(node, exp.CountIf):
        return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))
    name = function_name(node)
    if name == "mean":
        return exp.Avg(this=node.expressions[0])
    if name in _NAMES:
        return call(_NAMES[name], *node.expressions)
    if name == "approx_median":
        return call("percentile_approx", *node.expressions, 0.5)
    return node


def _filter_inside(node: exp.Filter) -> exp.Expr:
    """Move FILTER to the aggregate itself, if the rewritten call has put something around it."""
    inner: exp.Expr = node.this
    if isinstance(inner, exp.Dot | exp.If) or function_name(inner) == "try_element_at":
        lists = [n for n in inner.find_all(exp.Anonymous) if function_name(n) == "collect_list"]
        for collected in lists:
            outer = collected.parent if isinstance(collected.parent, exp.Filter) else collected
            outer.replace(_filtered(outer.copy(), node.expression.this))
        return inner
    return _filtered(inner, node.expression.this) if isinstance(inner, exp.Filter) else node


def _filtered(call_: exp.Expr, condition: exp.Expr) -> exp.Filter:
    """Return the aggregate with a condition more."""
    if isinstance(call_, exp.Filter):
        both = exp.and_(call_.expression.this, condition.copy())
        return exp.Filter(this=call_.this, expression=exp.Where(this=both))
    return exp.Filter(this=call_, expression=exp.Where(this=condition.copy()))
