"""Naming the inputs of an operator in its expressions."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headgate.planner.lower.draft import column


def qualified(node: exp.Expr, table: str = "__in0") -> exp.Expr:
    """Return a copy with every unqualified column named as one of the given input."""
    return map_columns(node, lambda c: c if c.table else column(c.name, table))


def unqualified(node: exp.Expr) -> exp.Expr:
    """Return a copy with bare column names."""
    return map_columns(node, lambda c: column(c.name))


def map_columns(node: exp.Expr, change: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """Return a copy with every column replaced by what `change` makes of it."""
    result = node.copy()
    if isinstance(result, exp.Column):
        return change(result)
    for found in list(result.find_all(exp.Column)):
        new = change(found)
        if new is not found:
            found.replace(new)
    return result
