"""What `headgate test` shows to a person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.cases.comparing import Difference
from headgate.cases.document import LocatedCase
from headgate.cases.reports import heading, status
from headgate.cases.running import Result, TableDifferences, plain

_COLOURS = {"passed": "green", "failed": "red", "invalid": "yellow"}
_WORDS = {
    "missing": ("missing", "red"),
    "unexpected": ("unexpected", "yellow"),
    "changed": ("changed", "magenta"),
    "moved": ("out of order", "cyan"),
}
# Of so many differences of one table, more say nothing new.
_SHOWN_MAX = 50


class TestScreen:
    """One line per case as it ends, the differences of those that failed, a summary."""

    __test__ = False

    def __init__(self, console: Console) -> None:
        self._console = console

    def listed(self, cases: Sequence[LocatedCase]) -> None:
        for case in cases:
            self._line(f"{case.file}:{case.line}: {case.name}")

    def ended(self, result: Result) -> None:
        """Show a case that has ended."""
        word = status(result)
        line = Text.assemble(
            (f"{word:<8}", _COLOURS[word]),
            f"{result.located.file} :: {result.located.name}",
            (f"  {result.seconds:.1f} s", "dim"),
        )
        if result.chaos_seeds:
            runs = len(result.chaos_seeds)
            line.append(f", {runs} {'run' if runs == 1 else 'runs'} with kills", "dim")
        self._console.print(line, soft_wrap=True)
        for problem in result.problems:
            self._line(f"    {problem}")
        for table in result.differences:
            self._line(f"    {heading(table)}")
            self._console.print(_table_of(table))

    def summary(self, results: Sequence[Result], seconds: float, *, left: int) -> None:
        """Show how many cases ended how; `left` were not run."""
        counts = [(word, sum(status(r) == word for r in results)) for word in _COLOURS]
        shown = [f"{count} {word}" for word, count in counts if count or word == "passed"]
        if left:
            shown.append(f"{left} not run")
        self._line(f"{', '.join(shown)} in {seconds:.1f} s")

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _table_of(differing: TableDifferences) -> Table:
    shown = differing.differences[:_SHOWN_MAX]
    # Columns that nobody named have nothing to do with the failure, unless a row is unexpected.
    names = list(dict.fromkeys(n for d in shown for n in (d.expected or {})))
    if not names:
        names = list(dict.fromkeys(n for d in shown for n in (d.actual or {})))
    table = Table(box=None, pad_edge=True, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for difference in shown:
        word, colour = _WORDS[difference.kind]
        cells = [_cell(difference, name) for name in names]
        table.add_row(Text(f"    {word}", colour), *cells)
    if len(differing.differences) > _SHOWN_MAX:
        table.add_row(Text(f"    and {len(differing.differences) - _SHOWN_MAX} more"))
    return table


def _cell(difference: Difference, name: str) -> Text:
    expected, actual = difference.expected, difference.actual
    if difference.kind == "changed" and expected is not None and actual is not None:
        if name in expected and name in difference.columns():
            found = said(actual[name]) if name in actual else "(no such column)"
            return Text.assemble((said(expected[name]), "red"), " → ", (found, "yellow"))
        return Text(said(actual.get(name)))
    row = expected if expected is not None else actual
    return Text(said(row[name]) if row is not None and name in row else "")


def said(value: Any) -> str:
    """Return a value in a few words."""
    if isinstance(value, str):
        return value if value.strip() == value and value else json.dumps(value)
    return json.dumps(plain(value), ensure_ascii=False)
