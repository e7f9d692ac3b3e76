"""Aggregate functions by the names that users of Arroyo and Postgres know."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call

_NAMES = {
    "var": "var_samp",
    "covar": "covar_samp",
    "std": "stddev",
}


def rewrite_aggregate(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Filter):
        return _filter_inside(node)
    if isinstance(node, exp.WithinGroup):
        return _within_group(node)
    if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.FirstValue | exp.LastValue):
        return _first_or_last(node.this, ignore_nulls=True)
    if isinstance(node, exp.FirstValue | exp.LastValue | exp.First | exp.Last):
        if isinstance(node.parent, exp.Window | exp.IgnoreNulls | exp.RespectNulls):
            return node
        return _first_or_last(node, ignore_nulls=False)
    if isinstance(node, exp.ArrayAgg) and isinstance(node.this, exp.Order):
        return _ordered_list(node.this)
    if isinstance(node, exp.CountIf):
        return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))
    name = function_name(node)
    if name == "mean":
        return exp.Avg(this=node.expressions[0])
    if name in _NAMES:
        return call(_NAMES[name], *node.expressions)
    if name == "approx_median":
        return call("percentile_approx", *node.expressions, 0.5)
    if name == "approx_percentile_cont" and not isinstance(node.parent, exp.WithinGroup):
        return call("percentile_approx", *node.expressions)
    if name == "approx_percentile_cont_with_weight":
        return _weighted(node)
    return node


def _within_group(node: exp.WithinGroup) -> exp.Expr:
    """`approx_percentile_cont(p) WITHIN GROUP (ORDER BY x)`; Spark has the exact ones itself."""
    inner = node.this
    if function_name(inner) != "approx_percentile_cont":
        return node
    order = node.expression
    if not isinstance(order, exp.Order) or len(order.expressions) != 1 or not inner.expressions:
        raise error_at(
            inner, "write approx_percentile_cont(p) WITHIN GROUP (ORDER BY x), with one x"
        )
    ordered = order.expressions[0]
    fraction = inner.expressions[0]
    if ordered.args.get("desc"):
        fraction = exp.Sub(this=exp.Literal.number(1), expression=fraction)
    return call("percentile_approx", ordered.this, fraction, *inner.expressions[1:])


def _first_or_last(node: exp.Expr, *, ignore_nulls: bool) -> exp.Expr:
    """First and last are by the given order, or by event time: never by chance of arrival."""
    first = isinstance(node, exp.First | exp.FirstValue)
    value, order = node.this, call("row_time")
    if isinstance(value, exp.Order):
        if len(value.expressions) != 1:
            raise error_at(node, "first_value and last_value take one ORDER BY expression")
        ordered = value.expressions[0]
        if ordered.args.get("desc"):
            first = not first
        value, order = value.this, ordered.this
    if isinstance(value, exp.IgnoreNulls):
        value, ignore_nulls = value.this, True
    result: exp.Expr = call("min_by" if first else "max_by", value, order)
    if ignore_nulls:
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        result = exp.Filter(this=result, expression=exp.Where(this=present))
    return result


def _ordered_list(order: exp.Order) -> exp.Expr:
    """`array_agg(x ORDER BY y)`: sort pairs of (y, x), then keep the x."""
    if len(order.expressions) != 1 or isinstance(order.this, exp.Distinct):
        raise error_at(order, "array_agg takes one ORDER BY expression, without DISTINCT")
    ordered = order.expressions[0]
    pair = call("named_struct", "k", ordered.this, "v", order.this)
    descending = exp.false() if ordered.args.get("desc") else exp.true()
    pairs = call("sort_array", call("collect_list", pair), descending)
    return exp.Dot(this=pairs, expression=exp.to_identifier("v"))


def _filter_inside(node: exp.Filter) -> exp.Expr:
    """Move FILTER to the aggregate itself, where the rewritten call has put something around it."""
    inner = node.this
    if isinstance(inner, exp.Filter):
        both = exp.and_(inner.expression.this, node.expression.this)
        return exp.Filter(this=inner.this, expression=exp.Where(this=both))
    if isinstance(inner, exp.Dot):
        for collected in inner.find_all(exp.Anonymous):
            if function_name(collected) == "collect_list":
                collected.replace(exp.Filter(this=collected.copy(), expression=node.expression))
                return inner
    return node


def _weighted(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 3:
        raise error_at(node, "write approx_percentile_cont_with_weight(x, weight, p)")
    value, weight, fraction = node.expressions
    return call("percentile", value, fraction, weight)
