"""Errors of the SQL text: where they are, and how they are shown.

sqlglot keeps positions on identifiers, literals and function calls only, so the position of a node
is that of the leftmost descendant that has one.
"""

from __future__ import annotations

from sqlglot import exp

from headgate.core.errors import SqlError

__all__ = ["SqlError", "error_at", "render_error"]


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


def _leftmost(node: exp.Expr) -> tuple[int, int, int] | None:
    """Return (offset, line, column) of the first token that belongs to the node."""
    own = _position(node)
    if own is not None:
        return own
    found = [position for child in node.walk() if (position := _position(child)) is not None]
    return min(found) if found else None


def _position(node: exp.Expr) -> tuple[int, int, int] | None:
    meta = node.meta
    if meta.get("start") is None or meta.get("line") is None:
        return None
    start, end, line, col = meta["start"], meta["end"], meta["line"], meta["col"]
    # sqlglot gives the column of the token's last character.
    return start, line, max(1, col - (end - start))


def render_error(sql: str, error: SqlError) -> str:
    """Show the message, the offending line and a caret below the column."""
    if error.line is None:
        return f"error: {error.message}"
    lines = sql.splitlines()
    text = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
    column = error.column or 1
    # Tabs stay tabs in the margin, so the caret lands below the character in any terminal.
    margin = "".join("\t" if c == "\t" else " " for c in text[: column - 1].ljust(column - 1))
    number = str(error.line)
    gutter = " " * len(number)
    return (
        f"error: {error.message}\n"
        f"{gutter}--> line {error.line}, column {column}\n"
        f"{gutter} |\n"
        f"{number} | {text}\n"
        f"{gutter} | {margin}^"
    )
