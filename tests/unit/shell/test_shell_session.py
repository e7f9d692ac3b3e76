"""What the session remembers, and where its errors point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.core.errors import SqlError, UserError
from headgate.planner import plan, render_error
from headgate.shell.session import Session
from headgate.shell.statements import Declare, read_statement

IMPULSE = "CREATE TABLE i WITH (connector = 'impulse', message_count = 3)"


def declare(session: Session, text: str) -> None:
    statement = read_statement(text)
    assert isinstance(statement, Declare)
    session.declare(statement)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.json").write_text(json.dumps({"id": 1, "shop": "a"}) + "\n")
    session = Session()
    declare(session, IMPULSE)
    return session


def test_an_error_points_into_the_statement_that_was_typed(session: Session) -> None:
    text = "SELECT counter,\n       foo FROM i"
    with pytest.raises(SqlError) as caught:
        session.plan(text)
    assert render_error(text, caught.value).splitlines()[-2:] == [
        "2 |        foo FROM i",
        "  |        ^",
    ]


def test_what_is_refused_changes_nothing(session: Session) -> None:
    for text in ("CREATE VIEW v AS SELECT foo FROM i", IMPULSE, "SET nothing = 1"):
        with pytest.raises(SqlError):
            declare(session, text)
    assert [s.name for s in session.statements] == ["i"]
    assert list(session.catalog.tables) == ["i"]


def test_or_replace_replaces(session: Session) -> None:
    declare(session, "CREATE VIEW v AS SELECT counter FROM i")
    declare(session, "CREATE OR REPLACE VIEW v AS SELECT counter + 1 AS next FROM i")
    assert len(session.statements) == 2
    assert session.plan("SELECT next FROM v").rows_max is None


def test_a_table_that_is_read_cannot_be_dropped(session: Session) -> None:
    declare(session, "CREATE VIEW v AS SELECT counter FROM i")
    with pytest.raises(UserError, match="still used"):
        session.drop("i")
    assert session.drop("v")
    assert session.drop("I")
    assert not session.drop("i")
    assert session.statements == ()


def test_limit_is_taken_off_the_end_only(session: Session) -> None:
    planned = session.plan("SELECT counter FROM i\nLIMIT 5")
    assert planned.rows_max == 5
    with pytest.raises(SqlError, match="LIMIT"):
        session.plan("SELECT counter FROM (SELECT counter FROM i LIMIT 5)")


def test_a_path_in_from_is_a_table_and_goes_into_the_saved_text(session: Session) -> None:
    assert session.plan("SELECT shop FROM 'orders.json' WHERE id > 0").graph.sources()
    assert session.find("orders.json") is None
    declare(session, "CREATE VIEW shops AS SELECT shop FROM 'orders.json'")
    declare(session, "CREATE TABLE out (shop TEXT) WITH (connector = 'blackhole')")
    assert session.insert("INSERT INTO out SELECT shop FROM shops").kind == "insert"
    saved = session.to_sql()
    assert [o.spec.kind for o in plan(saved).sinks()] == ["sink"]
    # What waits for `headgate run` is not run beside a query.
    assert len(session.plan("SELECT shop FROM shops").graph.sinks()) == 1


def test_a_text_that_happens_to_follow_from_is_no_file(session: Session) -> None:
    session.plan("SELECT trim('x' FROM 'xax') AS t, extract(year FROM DATE '2024-01-01') FROM i")


def test_a_file_that_is_not_there_is_pointed_at(session: Session) -> None:
    with pytest.raises(SqlError, match="there is no file") as caught:
        session.plan("SELECT *\nFROM 'no.json'")
    assert (caught.value.line, caught.value.column) == (2, 6)


def test_an_insert_fills_a_table_of_the_session(session: Session) -> None:
    declare(session, "CREATE TABLE kept (n BIGINT)")
    assert session.insert("INSERT INTO kept SELECT counter FROM i").kind == "fill"
    assert len(session.plan("SELECT n FROM kept").graph.sinks()) == 1
    with pytest.raises(SqlError, match="only insert into a memory table once"):
        session.insert("INSERT INTO kept SELECT counter FROM i")


def test_the_functions_of_a_file_are_known() -> None:
    source = "from headgate.udf import udf\n\n@udf\ndef twice(n: int) -> int:\n    return n * 2\n"
    session = Session(source)
    declare(session, IMPULSE)
    assert [u.name for u in session.plan("SELECT twice(counter) FROM i").graph.udfs] == ["twice"]
