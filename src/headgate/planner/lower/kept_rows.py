"""Aggregates that are not split into partials: Spark computes them over the rows that are kept."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headgate.planner.drafts.draft import Exprs, column
from headgate.planner.drafts.meanings import short_digest
from headgate.planner.functions import is_volatile
from headgate.planner.lower.columns import is_path, path_name
from headgate.planner.spark_sql import spark_text


def over_rows(call: exp.Expr, rows: Exprs, udafs: frozenset[str]) -> exp.Expr:
    """Return the aggregate over kept columns, and add what it needs to `rows`.

    What is kept are the values of its arguments: they are computed once, and are smaller than
    the columns they are made of.
    """
    result = call.copy()
    for argument in list(_arguments(result)):
        name = f"v_{short_digest(spark_text(argument))}"
        if is_path(argument):
            # Two paths may have one name: `a.b` and a column called `a_b`.
            wanted = f"v_{path_name(argument)}"
            if spark_text(rows.get(wanted, argument)) == spark_text(argument):
                name = wanted
        rows[name] = argument.copy()
        argument.replace(column(name))
    return as_spark_aggregate(result, udafs)


def _arguments(node: exp.Expr) -> Iterator[exp.Expr]:
    """Return what an aggregate call reads, below DISTINCT, ORDER BY, FILTER and WITHIN GROUP.

    Constants are not read: Spark insists that some, such as the fraction of a percentile, are
    constants where it computes the aggregate.
    """
    inside = (
        exp.AggFunc,
        exp.Distinct,
        exp.Order,
        exp.Ordered,
        exp.Where,
        exp.Filter,
        exp.WithinGroup,
    )
    constant = (exp.Literal, exp.Star, exp.Boolean, exp.Null, exp.Var, exp.DataType, exp.Identifier)
    for child in node.iter_expressions():
        if isinstance(child, inside) or (child is node.this and isinstance(child, exp.Anonymous)):
            yield from _arguments(child)
        elif not isinstance(child, constant) and not _is_constant(child):
            yield child


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column) is None and not is_volatile(node)


def as_spark_aggregate(call: exp.Expr, udafs: frozenset[str]) -> exp.Expr:
    """Return the call as Spark knows it: a user's aggregate is a function of lists of values.

    Lists of several arguments belong together, so a row with a null in one of them is in none.
    """
    inner = call.this if isinstance(call, exp.Filter) else call
    if not isinstance(inner, exp.Anonymous) or inner.name.lower() not in udafs:
        return call
    arguments = inner.expressions
    conditions = [call.expression.this] if isinstance(call, exp.Filter) else []
    if len(arguments) == 1:
        lists = [_collected(arguments[0], conditions)]
    else:
        conditions += [exp.Is(this=a.copy(), expression=exp.Null()).not_() for a in arguments]
        fields = [
            part
            for number, argument in enumerate(arguments)
            for part in (exp.Literal.string(f"a{number}"), argument)
        ]
        row = exp.Anonymous(this="named_struct", expressions=fields)
        lists = [
            exp.Dot(this=_collected(row, conditions), expression=exp.to_identifier(f"a{number}"))
            for number in range(len(arguments))
        ]
    return exp.Anonymous(this=inner.name, expressions=lists)


def _collected(value: exp.Expr, conditions: list[exp.Expr]) -> exp.Expr:
    collected = exp.Anonymous(this="collect_list", expressions=[value.copy()])
    if not conditions:
        return collected
    where = exp.Where(this=exp.and_(*(c.copy() for c in conditions)))
    return exp.Filter(this=collected, expression=where)
