"""Percentiles in every form of DataFusion: `f(p) WITHIN GROUP (ORDER BY x)` and older `f(x, p)`.

The exact ones are Spark's `percentile`, with or without a weight for each value; the approximate
one is `percentile_approx`. Spark wants the fraction as a constant, so it is one here.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, integer_value

_APPROXIMATE = "approx_percentile_cont"
_WEIGHTED = "approx_percentile_cont_with_weight"
_USAGE = {
    _APPROXIMATE: "(p [, centroids])",
    _WEIGHTED: "(weight, p [, centroids])",
    "percentile_cont": "(p)",
    "quantile_cont": "(p)",
}
# Spark's own accuracy, in which an error is at most one in ten thousand of the rows.
_ACCURACY = 10_000


def rewrite_percentile(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.WithinGroup):
        return _within_group(node)
    name = function_name(node)
    if name not in _USAGE or isinstance(node.parent, exp.WithinGroup):
        return node
    if len(node.expressions) < 2:
        raise _usage(node)
    value, *arguments = node.expressions
    return _percentile(node, value, arguments, descending=False)


def _within_group(node: exp.WithinGroup) -> exp.Expr:
    inner, order = node.this, node.expression
    if function_name(inner) not in _USAGE:
        return node
    if not isinstance(order, exp.Order) or len(order.expressions) != 1:
        raise _usage(inner)
    ordered = order.expressions[0]
    descending = bool(ordered.args.get("desc"))
    return _percentile(inner, ordered.this, inner.expressions, descending=descending)


def _percentile(
    at: exp.Expr, value: exp.Expr, arguments: list[exp.Expr], *, descending: bool
) -> exp.Expr:
    """Return Spark's call; `arguments` are those of the form with WITHIN GROUP."""
    name = function_name(at)
    weight, rest = (arguments[:1], arguments[1:]) if name == _WEIGHTED else ([], arguments)
    centroids = rest[1:]
    if not rest or len(centroids) > (1 if name in (_APPROXIMATE, _WEIGHTED) else 0):
        raise _usage(at)
    fraction = _fraction(rest[0], at, descending=descending)
    accuracy = [n for n in (_centroids(c) for c in centroids) if n > _ACCURACY]
    if name == _APPROXIMATE:
        return call("percentile_approx", value, fraction, *accuracy)
    return call("percentile", value, fraction, *weight)


def _fraction(node: exp.Expr, at: exp.Expr, *, descending: bool) -> exp.Expr:
    """Return the constant, counted from the other end if the order is descending."""
    if isinstance(node, exp.Array):
        parts = [_fraction(part, at, descending=descending) for part in node.expressions]
        return exp.Array(expressions=parts)
    inner = node
    while isinstance(inner, exp.Paren | exp.Cast):
        inner = inner.this
    value = _number(inner)
    if value is None or not 0 <= value <= 1:
        raise error_at(node, f"the fraction of {function_name(at)} is a number from 0 to 1")
    return exp.Literal.number(f"{1 - value:f}") if descending else inner


def _number(node: exp.Expr) -> Decimal | None:
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return Decimal(str(node.this))
    except InvalidOperation:
        return None


def _centroids(node: exp.Expr) -> int:
    """Return the wanted size of the digest, of which Spark needs no less than it has anyway."""
    number = integer_value(node)
    if number is None or number < 1:
        raise error_at(node, "the number of centroids is a whole number above 0")
    return number


def _usage(node: exp.Expr) -> Exception:
    name = function_name(node)
    return error_at(node, f"write {name}{_USAGE[name]} WITHIN GROUP (ORDER BY x), with one x")
