"""The stored texts of pipelines, over SQLite and over a real Postgres."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from headgate.controller.store.jobs import JobStore
from headgate.controller.store.tables import open_engine
from headgate.core.errors import UserError


def test_pipelines_are_created_changed_listed_and_deleted(url: str) -> None:
    jobs = JobStore(url)
    store = jobs.pipelines
    store.create("b", "SELECT 1", None, 5)
    store.put("a", "SELECT 2", "code", 6)
    store.put("b", "SELECT 3", "more", 7)
    assert [(p.name, p.sql, p.udf_source, p.created_ms, p.updated_ms) for p in store.list()] == [
        ("a", "SELECT 2", "code", 6, 6),
        ("b", "SELECT 3", "more", 5, 7),
    ]
    with pytest.raises(UserError, match="already a pipeline b"):
        store.create("b", "SELECT 4", None, 8)
    store.delete("a")
    for act in (store.get, store.delete):
        with pytest.raises(UserError, match="no pipeline a"):
            act("a")
    jobs.close()


def test_database_of_an_earlier_version_gets_the_missing_columns(url: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE TABLE pipelines (name VARCHAR(200) PRIMARY KEY, sql TEXT NOT NULL,"
                " created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL)"
            )
        )
        connection.execute(sa.text("INSERT INTO pipelines VALUES ('old', 'SELECT 1', 1, 1)"))
    engine.dispose()
    for text in (None, "code"):
        # The second time there is nothing left to add.
        jobs = JobStore(url)
        assert jobs.pipelines.get("old").udf_source == text
        jobs.pipelines.put("old", "SELECT 1", "code", 2)
        jobs.close()
