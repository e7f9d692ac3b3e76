"""Where the shell writes: rows to standard output, everything else beside it.

At a prompt all of it goes to the terminal, with a last line that says what is waited for. Without
one, rows are alone on standard output: tables, or JSON lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from headgate.shell.tables import RowTable, read_row

_CLEAR = "\r\x1b[K"


class Screen:
    """The two streams, and the line of the status while there is one."""

    def __init__(
        self,
        *,
        prompting: bool,
        as_json: bool = False,
        output: TextIO | None = None,
        errors: TextIO | None = None,
    ) -> None:
        self.prompting = prompting
        self.as_json = as_json
        self._output = output or sys.stdout
        self._errors = errors or sys.stderr
        self._moving = self._errors.isatty()
        self._status = ""

    def answer(self, *lines: str) -> None:
        """Write what was asked for."""
        self.status("")
        for line in lines:
            self._output.write(line + "\n")
        self._output.flush()

    def note(self, line: str) -> None:
        """Write what is said about an answer."""
        if self.prompting:
            self.answer(line)
        else:
            self.complain(line)

    def complain(self, *lines: str) -> None:
        self.status("")
        self._output.flush()
        for line in lines:
            self._errors.write(line + "\n")
        self._errors.flush()

    def status(self, text: str) -> None:
        """Replace the line that says what is waited for; empty takes it away."""
        if not self._moving or text == self._status:
            return
        self._errors.write(_CLEAR + text)
        self._errors.flush()
        self._status = text


class QueryRows:
    """The rows of one query on the screen."""

    def __init__(self, screen: Screen, *, updating: bool, rows_max: int | None) -> None:
        self.count = 0
        self._screen = screen
        self._updating = updating
        self._rows_max = rows_max
        self._table = RowTable(updating=updating)

    @property
    def is_enough(self) -> bool:
        return self._rows_max is not None and self.count >= self._rows_max

    def show(self, lines: Sequence[str]) -> None:
        """Show rows as they come, no more of them than were asked for."""
        if self._rows_max is not None:
            lines = lines[: max(0, self._rows_max - self.count)]
        self.count += len(lines)
        if self._screen.as_json:
            self._screen.answer(*lines)
            return
        rows = [read_row(line, updating=self._updating) for line in lines]
        self._screen.answer(*self._table.lines(rows))
