"""How specs describe themselves: the lines of `headgate plan`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.graph import NamedExpr


def line(label: str, value: str | None) -> list[str]:
    """Return `label: value`; nothing if there is no value."""
    return [f"{label}: {value}"] if value is not None else []


def expressions(label: str, exprs: tuple[NamedExpr, ...]) -> list[str]:
    """Return the expressions with their names, on one line."""
    if not exprs:
        return []
    parts = [e.expr if e.expr == e.name else f"{e.expr} as {e.name}" for e in exprs]
    return [f"{label}: {', '.join(parts)}"]


def by_keys(what: str, keys: tuple[NamedExpr, ...]) -> str:
    """Return `what by a, b`; without keys `what` alone."""
    names = ", ".join(key.expr for key in keys)
    return f"{what} by {names}" if names else what


def names(exprs: Iterable[NamedExpr]) -> list[str]:
    """Return the names that the expressions give to their columns."""
    return [e.name for e in exprs]
