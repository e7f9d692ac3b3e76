"""What Tab offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.planner import declared
from headgate.shell.completion import candidates

CATALOG = declared(
    "CREATE TABLE orders (id BIGINT, shop TEXT, \"order no\" INT) WITH (connector = 'kafka', "
    "type = 'source', topic = 't', bootstrap_servers = 'b:1', format = 'json');"
    "CREATE VIEW oldest AS SELECT id AS oldest_id FROM orders;"
)


def offered(before: str, after: str = "") -> list[str]:
    return [c.text for c in candidates(before, after, CATALOG, ["kafka", "impulse"])]


def test_tables_follow_from() -> None:
    assert offered("SELECT * FROM o") == ["orders", "oldest"]
    assert offered("DROP VIEW ol") == ["oldest"]


def test_columns_are_those_of_the_tables_in_the_statement() -> None:
    assert offered("SELECT sh", " FROM orders")[0] == "shop"
    assert "shop" not in offered("SELECT sh", " FROM oldest")
    assert offered("SELECT o.", " FROM orders o") == ["id", "shop", '"order no"']
    assert offered("SELECT oldest.", " FROM oldest") == ["oldest_id"]


def test_keywords_are_written_as_the_word_begins() -> None:
    assert "SELECT" in offered("SEL")
    assert "select" in offered("sel")
    assert "json_array_length(" in offered("SELECT json_arr")


def test_nothing_is_offered_within_a_text() -> None:
    assert offered("SELECT 'sho", " FROM orders") == []


def test_connectors_and_commands() -> None:
    assert offered("CREATE TABLE t WITH (connector = 'im") == ["impulse"]
    assert offered("\\s") == ["\\save"]


def test_files_follow_a_quote_after_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders.json", "orders.bin", ".hidden.json"):
        (tmp_path / name).touch()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.csv").touch()
    assert offered("SELECT * FROM 'o") == ["old/", "orders.json", "orders.bin"]
    assert offered("SELECT * FROM 'old/") == ["a.csv"]
