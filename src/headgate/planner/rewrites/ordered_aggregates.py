"""Aggregates that depend on the order of rows: `array_agg(x ORDER BY y)`, `first_value` and others.

Rows arrive in any order, so the order is always said or else event time. A list is collected as
structs of (keys, value), which are sorted, and of which the values are kept.
"""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, integer_value, literal

_NULLS = (exp.IgnoreNulls, exp.RespectNulls)
_FIRST_OR_LAST = (exp.FirstValue, exp.LastValue, exp.First, exp.Last)


def rewrite_ordered_aggregate(node: exp.Expr) -> exp.Expr:
    if isinstance(node, _NULLS):
        return _about_nulls(node)
    if isinstance(node.parent, (exp.Window, *_NULLS)):
        return node
    if isinstance(node, exp.WithinGroup):
        return _listagg(node)
    if isinstance(node, exp.GroupConcat):
        return _string_agg(node)
    return _by_order(node, with_nulls=True)


def _about_nulls(node: exp.Expr) -> exp.Expr:
    """`array_agg(x ORDER BY y) IGNORE NULLS`; OVER has its own place for these words."""
    if isinstance(node.parent, exp.Window):
        return node
    ignored = isinstance(node, exp.IgnoreNulls)
    if ignored and isinstance(node.this, exp.ArrayAgg) and not _is_ordered(node.this):
        return node.this  # Spark's list has no nulls.
    changed = _by_order(node.this, with_nulls=not ignored)
    return node if changed is node.this else changed


def _by_order(node: exp.Expr, *, with_nulls: bool) -> exp.Expr:
    if isinstance(node, _FIRST_OR_LAST):
        return _first_or_last(node, ignore_nulls=not with_nulls)
    if isinstance(node, exp.NthValue):
        return _nth_value(node, with_nulls=with_nulls)
    if not _is_ordered(node):
        return node
    if isinstance(node, exp.ArrayAgg):
        return _ordered_list(node.this.this, node.this.expressions, with_nulls=with_nulls)
    # No other aggregate depends on the order in which it reads.
    result = node.copy()
    result.set("this", result.this.this)
    return result


def _is_ordered(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) and isinstance(node.this, exp.Order)


def _first_or_last(node: exp.Expr, *, ignore_nulls: bool) -> exp.Expr:
    first = isinstance(node, exp.First | exp.FirstValue)
    value, order = node.this, call("row_time")
    if isinstance(value, exp.Order):
        value, keys = value.this, value.expressions
        if isinstance(value, exp.IgnoreNulls):
            value, ignore_nulls = value.this, True
        if len(keys) > 1:
            values = _ordered_list(value, keys, with_nulls=not ignore_nulls)
            return call("try_element_at", values, 1 if first else -1)
        if keys[0].args.get("desc"):
            first = not first
        order = keys[0].this
    if isinstance(value, exp.IgnoreNulls):
        value, ignore_nulls = value.this, True
    result: exp.Expr = call("min_by" if first else "max_by", value, order)
    return exp.Filter(this=result, expression=_present(value)) if ignore_nulls else result


def _nth_value(node: exp.NthValue, *, with_nulls: bool) -> exp.Expr:
    """`nth_value(x, 2 ORDER BY y)`; a negative position counts from the end."""
    position = node.args.get("offset")
    keys: list[exp.Expr] = [exp.Ordered(this=call("row_time"))]
    if isinstance(position, exp.Order):
        position, keys = position.this, position.expressions
    number = integer_value(position)
    if not number:
        raise error_at(node, "write nth_value(x, n ORDER BY y): n is 1 for the first, -1 the last")
    return call(
        "try_element_at", _ordered_list(node.this, keys, with_nulls=with_nulls), literal(number)
    )


def _listagg(node: exp.WithinGroup) -> exp.Expr:
    """`listagg(x, ',') WITHIN GROUP (ORDER BY y)`."""
    arguments = node.this.expressions if function_name(node.this) == "listagg" else []
    if not arguments or isinstance(arguments[0], exp.Distinct):
        return node
    separator = arguments[1] if len(arguments) > 1 else exp.Literal.string("")
    return _joined_list(arguments[0], node.expression.expressions, separator)


def _string_agg(node: exp.GroupConcat) -> exp.Expr:
    """`string_agg(x, ',' ORDER BY y)`, whose parser reads WITHIN GROUP as the same."""
    if not isinstance(node.this, exp.Order):
        return node
    separator = node.args.get("separator") or exp.Literal.string(",")
    return _joined_list(node.this.this, node.this.expressions, separator)


def _joined_list(value: exp.Expr, keys: list[exp.Expr], separator: exp.Expr) -> exp.Expr:
    """Join the ordered list; Spark's own `listagg` fails beside a `count(DISTINCT ...)`."""
    values = _ordered_list(value, keys, with_nulls=False)
    none = exp.EQ(this=call("cardinality", values.copy()), expression=exp.Literal.number(0))
    return exp.If(this=none, true=exp.null(), false=call("array_join", values, separator))


def _ordered_list(value: exp.Expr, keys: list[exp.Expr], *, with_nulls: bool) -> exp.Expr:
    """Return the values in the order of the keys."""
    distinct = isinstance(value, exp.Distinct)
    if distinct:
        value = value.expressions[0]
        if [key.this for key in keys] != [value]:
            raise error_at(value, "with DISTINCT, ORDER BY names the argument and nothing else")
    descending = {bool(key.args.get("desc")) for key in keys}
    # A sort by one direction turns the null's place as well, so its flag is turned back.
    turned = descending == {True}
    fields: list[exp.Expr | str] = []
    for number, key in enumerate(keys, 1):
        suffix = str(number) if number > 1 else ""
        fields += ["n" + suffix, _null_place(key, turned=turned), "k" + suffix, key.this.copy()]
    struct = call("named_struct", *fields, "v", value.copy())
    collected: exp.Expr = call(
        "collect_list", exp.Distinct(expressions=[struct]) if distinct else struct
    )
    if not with_nulls:
        collected = exp.Filter(this=collected, expression=_present(value))
    if len(descending) == 1:
        structs = call("sort_array", collected, exp.false() if turned else exp.true())
    else:
        structs = call("array_sort", collected, _comparison(keys))
    return exp.Dot(this=structs, expression=exp.to_identifier("v"))


def _null_place(key: exp.Expr, *, turned: bool) -> exp.Expr:
    """Return what is sorted before the key itself, which Spark would put first if it is null."""
    place: exp.Expr = exp.Is(this=key.this.copy(), expression=exp.Null())
    if turned != bool(key.args.get("nulls_first")):
        place = exp.Not(this=place)
    return place


def _comparison(keys: list[exp.Expr]) -> exp.Expr:
    """Return the lambda that orders two structs by keys of different directions."""
    case = exp.Case(ifs=[], default=exp.Literal.number(0))
    for number, key in enumerate(keys, 1):
        suffix = str(number) if number > 1 else ""
        _compare(case, "n" + suffix, descending=False)
        _compare(case, "k" + suffix, descending=bool(key.args.get("desc")))
    # Rows with equal keys must not stand in the order of their arrival.
    _compare(case, "v", descending=False)
    return exp.Lambda(this=case, expressions=[exp.to_identifier("l"), exp.to_identifier("r")])


def _compare(case: exp.Case, name: str, *, descending: bool) -> None:
    left, right = (
        exp.Dot(this=exp.to_identifier(side), expression=exp.to_identifier(name)) for side in "lr"
    )
    before, after = (exp.GT, exp.LT) if descending else (exp.LT, exp.GT)
    for comparison, answer in ((before, -1), (after, 1)):
        condition = comparison(this=left.copy(), expression=right.copy())
        case.append("ifs", exp.If(this=condition, true=literal(answer)))


def _present(value: exp.Expr) -> exp.Where:
    return exp.Where(this=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())))
