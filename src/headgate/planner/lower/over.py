"""OVER: ranks and running values inside a window that is already there."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators.sql.draft import SqlDraft
from headgate.planner.drafts.draft import column
from headgate.planner.drafts.meanings import short_digest
from headgate.planner.errors import error_at
from headgate.planner.functions import is_aggregate
from headgate.planner.lower.columns import qualified
from headgate.planner.lower.relation import Relation, filtered_draft
from headgate.planner.spark_sql import spark_text


def over_items(relation: Relation, exprs: list[exp.Expr]) -> tuple[Relation, list[exp.Expr]]:
    """Return the relation with a column for each OVER, and the expressions over it.

    A window is emitted whole in one micro-batch, so Spark sees all rows of a partition at once
    and nothing has to be kept.
    """
    calls = {spark_text(c): c for e in exprs for c in e.find_all(exp.Window)}
    for call in calls.values():
        _check(relation, call)
    source = filtered_draft(relation.with_exprs(exprs))
    passed = [n for n in source.draft.types if n != TIMESTAMP_COLUMN]
    names = {text: f"over_{short_digest(text)}" for text in calls}
    columns: dict[str, exp.Expr] = {n: column(n, "__in0") for n in passed}
    columns |= {names[text]: qualified(_ordered(call)) for text, call in calls.items()}
    draft = SqlDraft(
        inputs=[source.draft],
        types={
            **{n: source.draft.types[n] for n in passed},
            **{names[t]: _type(c) for t, c in calls.items()},
        },
        body=exp.select().from_("__in0"),
        columns=columns,
        hidden={TIMESTAMP_COLUMN: column(TIMESTAMP_COLUMN, "__in0")},
        what="over",
    )
    result = [_replaced(e, names) for e in exprs]
    return replace(relation, draft=draft, where=()), result


def _check(relation: Relation, call: exp.Window) -> None:
    if relation.window is None:
        raise error_at(
            call.this,
            "Window functions require already windowed input: GROUP BY a window below, and put it"
            " into PARTITION BY; for one row of every key, GROUP BY the key with first_value() or"
            " last_value()",
        )
    if call.args.get("alias") is not None:
        raise error_at(call.args["alias"], "a named window is not supported: write it into OVER")
    windows = [f.expr for f in relation.fields if f.is_window]
    if not any(p == w for p in call.args.get("partition_by") or [] for w in windows):
        raise error_at(
            call.this, "Window function requires exactly one window expression in partition_by"
        )


def _ordered(call: exp.Window) -> exp.Window:
    """Spark ranks only what is ordered: without an order, take that of event time."""
    aggregates = isinstance(call.this, exp.Filter) or is_aggregate(call.this)
    if call.args.get("order") is not None or aggregates:
        return call
    result = call.copy()
    by_time = exp.Ordered(this=column(TIMESTAMP_COLUMN), nulls_first=True)
    result.set("order", exp.Order(expressions=[by_time]))
    return result


def _type(call: exp.Window) -> str | None:
    ranks = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
    return "int" if isinstance(call.this, ranks) else None


def _replaced(expr: exp.Expr, names: dict[str, str]) -> exp.Expr:
    copied = expr.copy()
    if isinstance(copied, exp.Window):
        return column(names[spark_text(copied)])
    for call in list(copied.find_all(exp.Window)):
        call.replace(column(names[spark_text(call)]))
    return copied
