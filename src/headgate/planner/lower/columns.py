"""Naming the inputs of an operator in its expressions."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headgate.planner.drafts.draft import column
from headgate.planner.spark_sql import spark_text


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


def paths(node: exp.Expr) -> dict[str, exp.Expr]:
    """Return the columns, and fields of columns, that an expression reads, by their text.

    `bid.price` is one path: what is kept of a struct is the field, not the struct.
    """
    found: dict[str, exp.Expr] = {}
    for part in node.find_all(exp.Column):
        path = _path(part)
        found.setdefault(spark_text(path), path)
    return found


def map_paths(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a copy with every path replaced by what `change` makes of it."""
    result = node.copy()
    for part in list(result.find_all(exp.Column)):
        path = _path(part)
        new = change(path)
        if path is result:
            return new
        path.replace(new)
    return result


def is_path(node: object) -> bool:
    """Whether the node is a column, or a field of one."""
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)


def path_name(path: exp.Expr) -> str:
    """Name a path after its parts: `bid_price`."""
    if isinstance(path, exp.Dot):
        return f"{path_name(path.this)}_{path.expression.name}"
    return path.name


def _path(part: exp.Expr) -> exp.Expr:
    while isinstance(part.parent, exp.Dot) and part.arg_key == "this":
        part = part.parent
    return part
