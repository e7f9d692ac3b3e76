"""Small helpers for Spark SQL text."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN, NamedExpr, Partial


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def named(expr: NamedExpr | Partial) -> str:
    return f"{expr.expr} AS {quoted(expr.name)}"


def literal(text: str) -> str:
    """Quote a text for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def hidden_columns(columns: Iterable[str]) -> list[str]:
    """Return which of the hidden columns a frame has, to be passed on."""
    present = set(columns)
    return [c for c in (TIMESTAMP_COLUMN, OP_COLUMN) if c in present]
