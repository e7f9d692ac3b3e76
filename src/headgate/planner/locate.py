"""The place in the text of an expression that Spark has refused.

The graph keeps no places: a text that only moved is the same graph. So the text is planned again
when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from sqlglot import exp

from headgate.core.errors import ErrorInfo, HeadgateError, SqlError
from headgate.core.spark_errors import expression_of
from headgate.planner.connectors import connector
from headgate.planner.drafts.aggregate import DraftPartial
from headgate.planner.drafts.draft import Draft
from headgate.planner.errors import error_at, has_place
from headgate.planner.planning import drafted
from headgate.planner.spark_sql import spark_text


def place_of(sql: str, udf_source: str | None, error: ErrorInfo) -> SqlError | None:
    """Return an error at the place of what Spark has refused, if `error` says which it is."""
    expression = expression_of(error.message)
    if expression is None:
        return None
    return located(
        sql,
        udf_source,
        operator=error.operator,
        expression=expression,
        message="Spark refuses this expression",
    )


def located(
    sql: str, udf_source: str | None, *, operator: str | None, expression: str, message: str
) -> SqlError | None:
    """Return an error at the place of the expression, or None if it is not found in the text.

    `expression` is Spark's text of it, as it stands in the graph.
    """
    try:
        by_id = drafted(sql, find_connector=connector, udf_source=udf_source)
    except HeadgateError:
        # It was planned somewhere else, where a connector is that is not here.
        return None
    wanted = _words(expression)
    own = [draft for name, draft in by_id.items() if name == operator]
    others = [draft for name, draft in by_id.items() if name != operator]
    for draft in (*own, *others):
        for tree in _expressions(draft):
            for node in tree.walk():
                if has_place(node) and _words(spark_text(node)) == wanted:
                    return error_at(node, message)
    return None


def _words(text: str) -> str:
    return "".join(text.lower().split())


def _expressions(draft: Draft) -> Iterator[exp.Expr]:
    for field in fields(draft):
        yield from _of_value(getattr(draft, field.name))


def _of_value(value: object) -> Iterator[exp.Expr]:
    if isinstance(value, exp.Expr):
        yield value
    elif isinstance(value, DraftPartial):
        yield value.expr
    elif isinstance(value, dict):
        for part in value.values():
            yield from _of_value(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _of_value(part)
