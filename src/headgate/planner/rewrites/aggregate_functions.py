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
    if isinstance(node, exp.GroupConcat) and _is_plain_order(node.this):
        return _joined_list(node)
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


def _ordered_list(order: exp.Order, *, with_nulls: bool = True) -> exp.Expr:
    """`array_agg(x ORDER BY y)`: sort structs of (y, x), then keep the x."""
    if len(order.expressions) != 1 or isinstance(order.this, exp.Distinct):
        raise error_at(order, "array_agg takes one ORDER BY expression, without DISTINCT")
    ordered, value = order.expressions[0], order.this
    descending, nulls_first = (bool(ordered.args.get(key)) for key in ("desc", "nulls_first"))
    # Sorted before the key itself, which Spark would put first where it is null.
    place: exp.Expr = exp.Is(this=ordered.this.copy(), expression=exp.Null())
    if descending != nulls_first:
        place = exp.Not(this=place)
    collected: exp.Expr = call(
        "collect_list", call("named_struct", "n", place, "k", ordered.this, "v", value)
    )
    if not with_nulls:
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        collected = exp.Filter(this=collected, expression=exp.Where(this=present))
    structs = call("sort_array", collected, exp.false() if descending else exp.true())
    return exp.Dot(this=structs, expression=exp.to_identifier("v"))


def _is_plain_order(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Order)
        and len(node.expressions) == 1
        and not isinstance(node.this, exp.Distinct)
    )


def _joined_list(node: exp.GroupConcat) -> exp.Expr:
    """`string_agg(x, ',' ORDER BY y)`; Spark's own fails beside a `count(DISTINCT ...)`."""
    values = _ordered_list(node.this, with_nulls=False)
    separator = node.args.get("separator") or exp.Literal.string(",")
    none = exp.EQ(this=call("cardinality", values.copy()), expression=exp.Literal.number(0))
    return exp.If(this=none, true=exp.null(), false=call("array_join", values, separator))


def _filter_inside(node: exp.Filter) -> exp.Expr:
    """Move FILTER to the aggregate itself, where the rewritten call has put something around it."""
    inner = node.this
    if isinstance(inner, exp.Dot | exp.If):
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


def _weighted(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 3:
        raise error_at(node, "write approx_percentile_cont_with_weight(x, weight, p)")
    value, weight, fraction = node.expressions
    return call("percentile", value, fraction, weight)
