"""Rows as a person reads them: aligned columns, whose widths are those of the first rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

WIDTH_MAX = 60
# What has happened to a row of an updating query, by the letter of its change.
_OPERATIONS = {"c": "+", "r": "+", "u": "~", "d": "-"}
OPERATION = "op"


@dataclass(frozen=True)
class ShownRow:
    """One row: what happened to it (empty = it is a fact), and its values."""

    operation: str
    values: dict[str, Any]


def read_row(line: str, *, updating: bool) -> ShownRow:
    """Read what a query has shown. Of a change the newer values, of a delete the last ones."""
    row = json.loads(line)
    if not updating:
        return ShownRow("", row)
    operation = _OPERATIONS.get(row["op"], row["op"])
    return ShownRow(operation, row["before"] if operation == "-" else row["after"])


@dataclass
class RowTable:
    """Writes rows as lines. Wider values move what follows them, in their line only."""

    updating: bool
    _names: list[str] = field(default_factory=list)
    _widths: list[int] = field(default_factory=list)
    _right: list[bool] = field(default_factory=list)

    def lines(self, rows: Sequence[ShownRow]) -> list[str]:
        """Return the lines of some rows, below a header if they are the first."""
        if not rows:
            return []
        written = []
        if not self._names:
            self._measure(rows)
            written = [self._line(self._names), self._line(["─" * w for w in self._widths])]
        return written + [self._line(self._cells(row)) for row in rows]

    def _measure(self, rows: Sequence[ShownRow]) -> None:
        names = list(rows[0].values)
        self._names = [OPERATION, *names] if self.updating else names
        cells = [self._cells(row) for row in rows]
        for place, name in enumerate(self._names):
            longest = max(cell_len(row[place]) for row in cells)
            self._widths.append(min(WIDTH_MAX, max(cell_len(name), longest)))
            self._right.append(
                all(is_figure(r.values.get(name)) for r in rows) if name in names else False
            )

    def _cells(self, row: ShownRow) -> list[str]:
        names = self._names[1:] if self.updating else self._names
        cells = [cell_text(row.values.get(name)) for name in names]
        return [row.operation, *cells] if self.updating else cells

    def _line(self, cells: Sequence[str]) -> str:
        padded = []
        for cell, width, right in zip(cells, self._widths, self._right, strict=True):
            blank = " " * max(0, width - cell_len(cell))
            padded.append(blank + cell if right else cell + blank)
        return "  ".join(padded).rstrip()


def is_figure(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def cell_text(value: Any) -> str:
    """Write one value on one line."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return _one_line(value)
        case int() | float():
            return json.dumps(value)
        case _:
            return _one_line(json.dumps(value, ensure_ascii=False))


def _one_line(text: str) -> str:
    # Anything else that moves the cursor would move it for the rows that follow.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a small table that is known as a whole."""
    widths = [max(cell_len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        pairs = zip(cells, widths, strict=True)
        return "  ".join(c + " " * (w - cell_len(c)) for c, w in pairs).rstrip()

    return [line(columns), line(["─" * w for w in widths]), *(line(row) for row in rows)]
