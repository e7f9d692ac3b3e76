"""`a[1]` is the first element, `a[-1]` the last; what is not there is null, not an error."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.rewrites.calls import call, integer_value, wrapped


def rewrite_array_access(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Bracket):
        return node
    if len(node.expressions) != 1:
        raise error_at(node, "an array has one index")
    index = node.expressions[0]
    if isinstance(index, exp.Slice):
        return _slice(node.this, index)
    if isinstance(index, exp.Literal) and index.is_string:
        # A key of a map, or a field of a struct: Spark writes both the same way.
        return node
    position = integer_value(index)
    if position is None:
        return call("get", node.this, exp.Sub(this=wrapped(index), expression=_one()))
    if position < 0:
        return call("try_element_at", node.this, index)
    return call("get", node.this, position - 1)


def _slice(array: exp.Expr, index: exp.Slice) -> exp.Expr:
    start, end = index.this, index.expression
    if start is None or end is None or index.args.get("step") is not None:
        raise error_at(index, "a slice is written a[from:to]")
    length = exp.Sub(this=wrapped(end), expression=wrapped(start.copy()))
    one_more = exp.Add(this=length, expression=_one())
    return call("slice", array, start, call("greatest", one_more, 0))


def _one() -> exp.Expr:
    return exp.Literal.number(1)
