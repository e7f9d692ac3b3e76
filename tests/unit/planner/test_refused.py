"""Pipelines that are refused: the exact message, and the place the caret points at.

In `refused/*.sql` each case starts with `-- error: message`; `»` stands right before the place.
A `*` ends a message whose rest does not matter here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.planner import SqlError, plan, render_error
from tests.unit.planner.planner_world import TABLES

MARK = "»"
FILES = sorted((Path(__file__).parent / "refused").glob("*.sql"))


def cases() -> list[tuple[str, str, str]]:
    """Return (name, message, marked SQL) of every case."""
    found = []
    for file in FILES:
        for number, case in enumerate(file.read_text().split("-- error: ")[1:], 1):
            message, _, sql = case.partition("\n")
            found.append((f"{file.stem}-{number}", message.strip(), sql.strip("\n")))
    return found


CASES = cases()


@pytest.mark.parametrize(("message", "marked"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_refused_with_the_message_at_the_place(message: str, marked: str) -> None:
    sql = TABLES + marked.replace(MARK, "")
    with pytest.raises(SqlError) as raised:
        plan(sql)
    error = raised.value
    if message.endswith("*"):
        assert error.message.startswith(message[:-1])
    else:
        assert error.message == message
    before = (TABLES + marked).partition(MARK)[0] if MARK in marked else ""
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (error.line, error.column) == (line, column), render_error(sql, error)


def test_there_are_cases_enough_to_mean_something() -> None:
    assert len(CASES) >= 100


def test_the_offending_line_is_shown_with_a_caret() -> None:
    sql = "SELECT 1;\n\tSELECT colour FROM nowhere"
    error = SqlError("table 'nowhere' not found", line=2, column=21)
    assert render_error(sql, error) == (
        "error: table 'nowhere' not found\n"
        " --> line 2, column 21\n"
        "  |\n"
        "2 | \tSELECT colour FROM nowhere\n"
        "  | \t                   ^"
    )


def test_an_error_without_a_place_is_shown_alone() -> None:
    assert render_error("SELECT 1", SqlError("no")) == "error: no"
