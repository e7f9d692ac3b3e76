"""Expressions of drafts as the text that specs are made of."""

from __future__ import annotations

from sqlglot import exp

from headgate.core.graph import NamedExpr
from headgate.planner.drafts.draft import Exprs
from headgate.planner.spark_sql import spark_text


def named(exprs: Exprs) -> tuple[NamedExpr, ...]:
    return tuple(NamedExpr(name=n, expr=spark_text(e)) for n, e in exprs.items())


def conjunction(conditions: list[exp.Expr]) -> str | None:
    """Return the conditions as one; None if there is none."""
    if not conditions:
        return None
    if len(conditions) == 1 and isinstance(conditions[0], exp.Null):
        # Spark takes no condition without a type, and gives it none if it stands alone.
        return "CAST(NULL AS BOOLEAN)"
    texts = [
        f"({spark_text(c)})" if len(conditions) > 1 and isinstance(c, exp.Or) else spark_text(c)
        for c in conditions
    ]
    return " AND ".join(texts)


def select_list(exprs: Exprs) -> str:
    """Return the expressions as one line, equal for equal ones."""
    return ", ".join(f"{spark_text(e)} AS {n}" for n, e in exprs.items())
