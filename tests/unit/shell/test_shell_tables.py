"""Rows on the screen."""

from __future__ import annotations

import io
import json

from headgate.shell.screen import QueryRows, Screen
from headgate.shell.tables import RowTable, read_row


def test_figures_stand_at_the_right_and_later_rows_keep_the_columns() -> None:
    table = RowTable(updating=False)
    rows = [
        read_row(json.dumps(r), updating=False) for r in ({"n": 1, "t": "ab"}, {"n": 22, "t": None})
    ]
    assert table.lines(rows) == [" n  t", "──  ────", " 1  ab", "22  NULL"]
    later = [read_row('{"n": 333, "t": "x\\n"}', updating=False)]
    assert table.lines(later) == ["333  x\\n"]


def test_changes_say_what_happened() -> None:
    changes = [
        {"before": None, "after": {"k": 1}, "op": "c"},
        {"before": {"k": 1}, "after": {"k": 2}, "op": "u"},
        {"before": {"k": 2}, "after": None, "op": "d"},
    ]
    rows = [read_row(json.dumps(c), updating=True) for c in changes]
    assert RowTable(updating=True).lines(rows)[2:] == ["+   1", "~   2", "-   2"]


def test_no_more_rows_than_the_limit_and_json_as_it_came() -> None:
    output = io.StringIO()
    screen = Screen(prompting=False, as_json=True, output=output, errors=io.StringIO())
    rows = QueryRows(screen, updating=False, rows_max=2)
    rows.show(['{"a":1}'])
    assert not rows.is_enough
    rows.show(['{"a":2}', '{"a":3}'])
    assert rows.is_enough
    assert output.getvalue() == '{"a":1}\n{"a":2}\n'


def test_events_stay_out_of_the_rows() -> None:
    output, errors = io.StringIO(), io.StringIO()
    screen = Screen(prompting=False, output=output, errors=errors)
    screen.answer("row")
    screen.note("1 row in 0.1 s")
    assert (output.getvalue(), errors.getvalue()) == ("row\n", "1 row in 0.1 s\n")
