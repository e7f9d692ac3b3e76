"""`a[1]` is the first element, `a[-1]` the last; what is not there is null, not an error."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, integer_value, wrapped

_SUBSCRIPT = "subscript"


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
        found = call("get", node.this, exp.Sub(this=wrapped(index), expression=_one()))
    elif position < 0:
        found = call("try_element_at", node.this, index)
    else:
        found = call("get", node.this, position - 1)
    # Of a map it would be the key, which is known once the type is: see `lower/map_access.py`.
    found.meta[_SUBSCRIPT] = True
    return found


def subscript_of(node: exp.Anonymous) -> exp.Expr | None:
    """Return what stood between the brackets; None if there were none."""
    if not node.meta.get(_SUBSCRIPT):
        return None
    index: exp.Expr = node.expressions[1]
    if function_name(node) == "try_element_at":
        return index
    if isinstance(index, exp.Sub):
        inner: exp.Expr = index.this
        return inner.this if isinstance(inner, exp.Paren) else inner
    position = integer_value(index)
    return exp.Literal.number((position or 0) + 1)


def _slice(array: exp.Expr, index: exp.Slice) -> exp.Expr:
    start, end = index.this, index.expression
    if start is None or end is None or index.args.get("step") is not None:
        raise error_at(index, "a slice is written a[from:to]")
    length = exp.Sub(this=wrapped(end), expression=wrapped(start.copy()))
    one_more = exp.Add(this=length, expression=_one())
    return call("slice", array, start, call("greatest", one_more, 0))


def _one() -> exp.Expr:
    return exp.Literal.number(1)
