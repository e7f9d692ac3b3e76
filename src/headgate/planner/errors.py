"""Errors of the SQL text: where they are, and how they are shown.

sqlglot keeps positions on identifiers, literals and function calls only, so the position of a node
is that of the leftmost descendant that has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from headgate.core.errors import SqlError

__all__ = [
    "Errors",
    "FollowUpError",
    "SqlError",
    "SqlWarning",
    "error_at",
    "has_place",
    "render_error",
    "render_errors",
    "render_warning",
    "warning_at",
]


@dataclass(frozen=True)
class SqlWarning:
    """What a text probably does not mean, though it can be run."""

    message: str
    line: int | None
    column: int | None


class FollowUpError(SqlError):
    """What another error has caused: it is said only where that one is not."""


class Errors:
    """Errors of parts that do not depend on each other, gathered to be raised as one."""

    def __init__(self) -> None:
        self.found: list[SqlError] = []

    @contextmanager
    def caught(self) -> Iterator[None]:
        try:
            yield
        except SqlError as error:
            self.found.append(error)

    def raise_any(self) -> None:
        """Raise the first error in the text, with the others on it, if there is one."""
        if self.found:
            raise together(self.found)


def together(errors: Sequence[SqlError]) -> SqlError:
    """Return the error that stands first in the text, with the others on it."""
    every = [e for error in errors for e in error.every()]
    causes = [e for e in every if not isinstance(e, FollowUpError)] or every[:1]
    # An expression that is named twice (by GROUP BY 1, say) is wrong once.
    distinct = {(e.line or 0, e.column or 0, e.message): e for e in causes}
    # A position may be missing; errors of equal position keep their order.
    ordered = sorted(distinct.values(), key=lambda e: (e.line or 0, e.column or 0))
    first, others = ordered[0], tuple(ordered[1:])
    if not others and not first.others:
        return first
    kind = FollowUpError if isinstance(first, FollowUpError) else SqlError
    for other in others:
        other.others = ()
    return kind(first.message, line=first.line, column=first.column, others=others)


def error_at(node: exp.Expr | None, message: str) -> SqlError:
    """Return (not raise) an error that points at `node`."""
    place = node
    while place is not None:
        found = _leftmost(place)
        if found is not None:
            return SqlError(message, line=found[1], column=found[2])
        # Some nodes (NULL, types) have no token of their own: their surroundings do.
        place = place.parent
    return SqlError(message, line=1, column=1)


def warning_at(node: exp.Expr, message: str) -> SqlWarning:
    """Return a warning that points at `node`."""
    place = error_at(node, message)
    return SqlWarning(message, place.line, place.column)


def has_place(node: exp.Expr) -> bool:
    """Whether an error at the node would point at words of its own."""
    return _leftmost(node) is not None


def _leftmost(node: exp.Expr) -> tuple[int, int, int] | None:
    """Return (offset, line, column) of the first token that belongs to the node."""
    # What stands below a node with a place of its own may come from a view, elsewhere in the text.
    walked = node.walk(prune=lambda part: _position(part) is not None)
    found = [position for part in walked if (position := _position(part)) is not None]
    return min(found) if found else None


def _position(node: exp.Expr) -> tuple[int, int, int] | None:
    meta = node.meta
    if meta.get("start") is None or meta.get("line") is None:
        return None
    start, end, line, col = meta["start"], meta["end"], meta["line"], meta["col"]
    # sqlglot gives the column of the token's last character.
    return start, line, max(1, col - (end - start))


def render_errors(sql: str, error: SqlError) -> str:
    """Show all errors of a text."""
    return "\n\n".join(render_error(sql, e) for e in error.every())


def render_warning(sql: str, warning: SqlWarning) -> str:
    """Show a warning as an error is shown."""
    error = SqlError(warning.message, line=warning.line, column=warning.column)
    return render_error(sql, error, word="warning")


def render_error(sql: str, error: SqlError, *, word: str = "error") -> str:
    """Show the message, the offending line and a caret below the column."""
    if error.line is None:
        return f"{word}: {error.message}"
    lines = sql.splitlines()
    text = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
    column = error.column or 1
    # Tabs stay tabs in the margin, so the caret lands below the character in any terminal.
    margin = "".join("\t" if c == "\t" else " " for c in text[: column - 1].ljust(column - 1))
    number = str(error.line)
    gutter = " " * len(number)
    return (
        f"{word}: {error.message}\n"
        f"{gutter}--> line {error.line}, column {column}\n"
        f"{gutter} |\n"
        f"{number} | {text}\n"
        f"{gutter} | {margin}^"
    )
