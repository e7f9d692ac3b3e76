"""All errors of a text are told at once, and none that another one has caused."""

from __future__ import annotations

import pytest

from headgate.planner import SqlError, plan, render_errors
from tests.unit.planner.planner_world import TABLES


def refused(sql: str) -> list[tuple[str, int | None]]:
    """Return the message and the line of every error, counted from the first line of `sql`."""
    with pytest.raises(SqlError) as raised:
        plan(TABLES + sql)
    above = TABLES.count("\n")
    return [(e.message, e.line and e.line - above) for e in raised.value.every()]


def messages(sql: str) -> list[str]:
    return [message.split(" (")[0] for message, _ in refused(sql)]


def test_every_wrong_statement_and_item_is_told() -> None:
    found = refused(
        "SELECT upper(kind, 1),\n"
        "  frobnicate(kind)\n"
        "FROM rides WHERE seats;\n"
        "INSERT INTO facts SELECT tags, kind FROM rides;"
    )
    assert found == [
        ("upper() takes 1 argument, but 2 are given", 1),
        ("unknown function 'frobnicate'", 2),
        ("WHERE needs a condition, but this is INT", 3),
        ("column 'a' of 'facts' is BIGINT: ARRAY<TEXT> cannot be cast to it", 4),
    ]


def test_an_error_is_first_by_its_place_in_the_text() -> None:
    # WHERE is looked at before the list.
    assert messages("SELECT upper(kind, 1) FROM rides WHERE colour = 1") == [
        "upper() takes 1 argument, but 2 are given",
        "column 'colour' not found",
    ]


def test_what_reads_a_wrong_view_is_not_to_blame() -> None:
    assert messages(
        "CREATE VIEW v AS SELECT colour FROM rides; SELECT nothing FROM v; SELECT * FROM v"
    ) == ["column 'colour' not found"]


def test_what_reads_a_wrong_table_is_not_to_blame() -> None:
    assert messages(
        "CREATE TABLE t (a INT) WITH (connector = 'pigeon');\n"
        "CREATE VIEW v AS SELECT a FROM t;\n"
        "INSERT INTO facts SELECT a, b FROM v;\n"
        "SELECT size(kind, 1) FROM rides"
    )[1:] == ["size() takes 1 argument, but 2 are given"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v AS SELECT FROM WHERE",
        "CREATE TABLE IF NOT EXISTS v (a INT",
        "CREATE TABEL v (a INT)",
    ],
)
def test_what_reads_a_statement_that_cannot_be_parsed_is_not_to_blame(statement: str) -> None:
    found = refused(f"{statement};\nSELECT * FROM v;\nSELECT colour FROM rides")
    assert [line for _, line in found] == [1, 3]


def test_a_memory_table_whose_insert_is_wrong_is_not_empty() -> None:
    assert messages(
        "CREATE TABLE m (a BIGINT); INSERT INTO m SELECT colour FROM rides; SELECT a FROM m"
    ) == ["column 'colour' not found"]


def test_a_name_that_is_declared_twice_can_be_read() -> None:
    assert messages("CREATE VIEW bids AS SELECT 1 FROM rides; SELECT price, x FROM bids") == [
        "table 'bids' is already declared",
        "column 'x' not found",
    ]


def test_wrong_columns_of_a_table_are_told_together() -> None:
    found = refused("CREATE TABLE t (\n a INT,\n a INT,\n b,\n _op INT)")
    assert [line for _, line in found] == [3, 4, 5]


def test_a_group_that_is_named_by_its_number_is_wrong_once() -> None:
    assert messages("SELECT upper(kind, 1), count(*) FROM rides GROUP BY 1") == [
        "upper() takes 1 argument, but 2 are given"
    ]


def test_both_sides_of_a_union_are_looked_at() -> None:
    assert messages("SELECT x FROM rides UNION ALL SELECT y FROM rides") == [
        "column 'x' not found",
        "column 'y' not found",
    ]


def test_an_error_inside_a_view_points_into_the_view() -> None:
    assert refused("CREATE VIEW v AS\n  SELECT driver + kind AS x FROM rides;\nSELECT x FROM v")[
        0
    ] == (
        "'kind' is TEXT, and + computes with numbers: "
        "write CAST(kind AS BIGINT) if it holds numbers",
        2,
    )


def test_an_error_over_a_view_points_at_who_reads_it() -> None:
    assert refused("CREATE VIEW v AS SELECT tags AS x FROM rides;\nSELECT x + 1 FROM v") == [
        ("+ does not take ARRAY<TEXT> and INT: convert one with CAST", 2)
    ]


def test_each_error_is_shown_with_its_caret() -> None:
    sql = "SELECT 1;\nSELECT 2"
    error = SqlError("no", line=1, column=8, others=(SqlError("nor this", line=2, column=8),))
    shown = render_errors(sql, error)
    assert shown.count("^") == 2
    assert shown.index("error: no\n") < shown.index("\n\nerror: nor this\n")
