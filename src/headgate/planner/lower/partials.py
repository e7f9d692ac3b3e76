"""Splits an aggregate into partials that can be merged, if that is exact.

What is not split here is computed by Spark over the kept rows when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, Merge
from headgate.planner.drafts.aggregate import DraftPartial
from headgate.planner.drafts.draft import column
from headgate.planner.drafts.meanings import short_digest
from headgate.planner.infer import infer_type
from headgate.planner.lower.columns import is_path, path_name
from headgate.planner.spark_sql import generated_name, spark_text
from headgate.planner.types import FLOATING, INTEGRAL

_MERGES: dict[type[exp.Expr], Merge] = {
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
}


@dataclass(frozen=True)
class Split:
    """The partials by name, and the aggregate's value as an expression over those names."""

    partials: dict[str, DraftPartial]
    output: exp.Expr


def split_aggregate(
    call: exp.Expr, types: Mapping[str, str | None], *, updating: bool
) -> Split | None:
    """Return the split of an aggregate over bound arguments; None if it needs the rows.

    With an updating input only sums can be undone, so only they are split: each row counts as
    often as its `_op` says.
    """
    condition = None
    inner = call
    if isinstance(call, exp.Filter):
        inner, condition = call.this, call.expression.this
    if isinstance(inner, exp.Count):
        return _count(inner, condition, updating)
    argument = inner.this if isinstance(inner, exp.AggFunc) else None
    if argument is None or isinstance(argument, exp.Distinct | exp.Order):
        return None
    if isinstance(inner, exp.Sum):
        return _sum(argument, condition, types, updating)
    if isinstance(inner, exp.Avg):
        return _avg(argument, condition, types, updating)
    merge = _MERGES.get(type(inner))
    if merge is None or updating or not _mergeable(argument, merge, types):
        return None
    return _single(type(inner)(this=argument.copy()), condition, merge)


def _single(call: exp.Expr, condition: exp.Expr | None, merge: Merge) -> Split:
    name, partial = _partial(call, condition, merge)
    return Split(partials={name: partial}, output=column(name))


def _partial(call: exp.Expr, condition: exp.Expr | None, merge: Merge) -> tuple[str, DraftPartial]:
    expr = call
    if condition is not None:
        expr = exp.Filter(this=call, expression=exp.Where(this=condition.copy()))
    return partial_name(expr), DraftPartial(expr=expr, merge=merge)


def partial_name(expr: exp.Expr) -> str:
    """Name a partial after what it computes, so that its name does not depend on its place."""
    if isinstance(expr, exp.Count) and isinstance(expr.this, exp.Star):
        return "p_count"
    if isinstance(expr, exp.AggFunc) and is_path(expr.this):
        return f"p_{generated_name(expr)}_{path_name(expr.this)}"
    return f"p_{short_digest(spark_text(expr))}"


def _mergeable(argument: exp.Expr, merge: Merge, types: Mapping[str, str | None]) -> bool:
    """Minima of arrays, structs and the like are left to Spark, which knows their order."""
    if merge not in ("min", "max"):
        return True
    kind = infer_type(argument, types)
    if kind is None:
        # Arithmetic gives a number or a time, whichever it is.
        inner = argument.this if isinstance(argument, exp.Paren) else argument
        return isinstance(inner, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod)
    simple = INTEGRAL | FLOATING | {"string", "date", "timestamp", "boolean"}
    return kind in simple or kind.startswith("decimal")


def _count(call: exp.Count, condition: exp.Expr | None, updating: bool) -> Split | None:
    if isinstance(call.this, exp.Distinct | None) or call.expressions:
        return None
    if not updating:
        argument = call.this.copy()
        if isinstance(argument, exp.Literal):
            argument = exp.Star()
        return _single(exp.Count(this=argument), condition, "sum")
    if isinstance(call.this, exp.Star | exp.Literal):
        counted: exp.Expr = column(OP_COLUMN)
    else:
        counted = _when(exp.Is(this=call.this.copy(), expression=exp.Null()).not_())
    split = _single(exp.Sum(this=counted), condition, "sum")
    zero = exp.Coalesce(this=split.output, expressions=[exp.Literal.number(0)])
    return Split(partials=split.partials, output=zero)


def _when(condition: exp.Expr) -> exp.Expr:
    """Return `CASE WHEN condition THEN _op ELSE 0 END`."""
    return exp.Case(
        ifs=[exp.If(this=condition, true=column(OP_COLUMN))], default=exp.Literal.number(0)
    )


def _non_null_count(argument: exp.Expr, condition: exp.Expr | None, updating: bool) -> Split:
    split = _count(exp.Count(this=argument.copy()), condition, updating)
    assert split is not None
    return split


def _signed(argument: exp.Expr, updating: bool) -> exp.Expr:
    if not updating:
        return argument.copy()
    inner = argument.copy()
    wrapped = inner if isinstance(inner, exp.Column | exp.Func) else exp.Paren(this=inner)
    return exp.Mul(this=wrapped, expression=column(OP_COLUMN))


def _sum(
    argument: exp.Expr,
    condition: exp.Expr | None,
    types: Mapping[str, str | None],
    updating: bool,
) -> Split | None:
    kind = infer_type(argument, types)
    if not updating:
        return _single(exp.Sum(this=argument.copy()), condition, "sum")
    # Adding and taking away floats leaves a rest, and a product with `_op` widens decimals.
    if kind not in INTEGRAL:
        return None
    total = _single(exp.Sum(this=_signed(argument, updating)), condition, "sum")
    count = _non_null_count(argument, condition, updating)
    # The sum of no values is null, which a sum of signed values cannot tell from zero.
    output = exp.Case(
        ifs=[exp.If(this=exp.GT(this=count.output, expression=_zero()), true=total.output)]
    )
    return Split(partials={**total.partials, **count.partials}, output=output)


def _avg(
    argument: exp.Expr,
    condition: exp.Expr | None,
    types: Mapping[str, str | None],
    updating: bool,
) -> Split | None:
    kind = infer_type(argument, types)
    # Spark averages integers and floats as doubles; decimals have a type of their own.
    if kind not in INTEGRAL and (updating or kind not in FLOATING):
        return None
    summed = _signed(argument, updating)
    if kind != "double":
        summed = exp.cast(summed, "double")
    total = _single(exp.Sum(this=summed), condition, "sum")
    count = _non_null_count(argument, condition, updating)
    divisor = exp.Anonymous(this="nullif", expressions=[count.output.copy(), _zero()])
    output = exp.Div(this=total.output, expression=divisor)
    return Split(partials={**total.partials, **count.partials}, output=output)


def _zero() -> exp.Expr:
    return exp.Literal.number(0)
