"""How specs describe themselves: the lines of `headgate plan`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headgate.core.graph import NamedExpr, Partial

_AVERAGE = re.compile(r"\w+ / nullif\((\w+), 0\)")


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


def aggregates(
    outputs: Iterable[NamedExpr], partials: Iterable[Partial], rows: Iterable[NamedExpr]
) -> tuple[str, ...]:
    """Write aggregates as they were before they were split: over columns of the input."""
    exprs = {p.name: p.expr for p in partials} | {r.name: r.expr for r in rows}
    return tuple(dict.fromkeys(_aggregate(o.expr, exprs) for o in outputs))


def _aggregate(expr: str, exprs: dict[str, str]) -> str:
    average = _AVERAGE.fullmatch(expr)
    if average and exprs.get(average[1], "").startswith("count("):
        return "avg(" + exprs[average[1]].removeprefix("count(")
    return re.sub(r"\b[pv]?_\w+", lambda name: exprs.get(name[0], name[0]), expr)
