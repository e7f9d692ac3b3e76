"""Where statements end, and what they ask for."""

from __future__ import annotations

import pytest

from headgate.core.errors import SqlError
from headgate.shell.limits import take_limit
from headgate.shell.splitting import is_complete, pieces
from headgate.shell.statements import (
    Declare,
    Describe,
    Drop,
    Explain,
    Help,
    Insert,
    Load,
    Query,
    Quit,
    Save,
    Show,
    ShowSettings,
    Statement,
    read_statement,
)


def test_semicolons_in_texts_and_comments_end_nothing() -> None:
    found = pieces("SELECT 'a;b'; -- c;d\nSELECT \"e;f\" /* ; */;\n ; SELECT 1")
    assert [(p.text.strip(), p.line, p.ended) for p in found] == [
        ("SELECT 'a;b'", 0, True),
        ('-- c;d\nSELECT "e;f" /* ; */', 0, True),
        ("SELECT 1", 2, False),
    ]


def test_a_statement_keeps_its_place_in_its_line() -> None:
    (_, second) = pieces("SELECT 1; SELECT foo")
    assert second.text.index("foo") == "SELECT 1; SELECT foo".index("foo")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT /* ;", False),
        ("SELECT 1; -- done", True),
        ("\\q", True),
        ("help", True),
        ("", True),
    ],
)
def test_enter_submits_what_has_ended(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("show tables", Show("tables")),
        ("SHOW FUNCTIONS LIKE '%json%'", Show("functions", "json")),
        ("SHOW CREATE TABLE t", Show("create", "t")),
        ("describe 'a''b.json'", Describe("a'b.json", is_path=True)),
        ('DESC "My Table"', Describe("My Table", is_path=False)),
        ("DROP VIEW IF EXISTS v", Drop("view", "v", if_exists=True)),
        ("-- a comment\nSET", ShowSettings()),
        ("set updating_ttl = interval '1 hour'", None),
        ("EXPLAIN SELECT 1", Explain("        SELECT 1")),
        ("INSERT INTO t SELECT 1", Insert("INSERT INTO t SELECT 1")),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Query("WITH a AS (SELECT 1) SELECT * FROM a")),
        ("\\q", Quit()),
        ("\\?", Help()),
        ("\\save a b.sql", Save("a b.sql")),
        ("\\load x.sql", Load("x.sql")),
        ("\\d t", Describe("t", is_path=False)),
    ],
)
def test_first_words_decide(text: str, statement: Statement | None) -> None:
    assert read_statement(text) == (statement or Declare(text, "set"))


def test_create_or_replace_is_seen() -> None:
    found = read_statement("/* new */ create or\nreplace view v as select 1")
    assert isinstance(found, Declare)
    assert found.replace


@pytest.mark.parametrize("text", ["SHOW", "SHOW nothing", "DESCRIBE", "DROP t", "\\x", "\\save"])
def test_what_is_incomplete_says_what_to_write(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        read_statement(text)
    assert (caught.value.line, caught.value.column) == (1, 1)


def test_limit_leaves_every_other_place_as_it_was() -> None:
    text = "SELECT a FROM t WHERE b IN (SELECT 1 LIMIT 2) LIMIT 30"
    limited = take_limit(text)
    assert limited.rows_max == 30
    assert limited.text == text.replace("LIMIT 30", "        ")
    assert take_limit("SELECT a FROM (SELECT 1 LIMIT 2)").rows_max is None
    assert take_limit("SELECT 'LIMIT 3'").rows_max is None
