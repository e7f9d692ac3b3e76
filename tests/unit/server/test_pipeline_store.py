"""The stored texts of pipelines, and a database of an earlier version."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from headgate.controller.job_store import JobStore
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from tests.unit.controller.support import GRAPH, job_spec, new_controller


def test_pipelines_are_created_changed_listed_and_deleted(tmp_path: Path) -> None:
    store = JobStore(str(tmp_path / "jobs.db")).pipelines
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


def test_job_stores_its_text_and_keeps_its_pipeline(tmp_path: Path) -> None:
    controller = new_controller(tmp_path)
    try:
        controller.create_job(job_spec(tmp_path))
        assert controller.pipelines.get("orders").sql == "SELECT n FROM numbers"
        with pytest.raises(UserError, match="has jobs"):
            controller.pipelines.delete("orders")
    finally:
        controller.close()


def test_job_given_as_a_graph_stores_no_text(tmp_path: Path) -> None:
    from dataclasses import replace

    controller = new_controller(tmp_path)
    try:
        job = controller.create_job(
            replace(job_spec(tmp_path), name="drawn", sql=None, graph=GRAPH), JobId("drawn")
        )
        assert controller.job_status(job).pipeline == "drawn"
        assert controller.pipelines.list() == []
    finally:
        controller.close()


def test_requests_to_the_state_store_are_counted(tmp_path: Path) -> None:
    controller = new_controller(tmp_path, rows=100)
    controller.start()
    try:
        job = controller.create_job(job_spec(tmp_path))
        assert controller.store_requests(JobId("another")).requests == 0
        controller.wait_for(job, lambda s: s.terminal, 120)
        counts = controller.store_requests(job)
        # At least metadata of two operators, a manifest, a record and a marker.
        assert counts.puts + counts.creates >= 5
        assert counts.bytes_written > 500
        controller.delete_job(job)
        assert controller.store_requests(job).requests == 0
    finally:
        controller.close()


def test_database_of_an_earlier_version_gets_the_missing_columns(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE pipelines (name VARCHAR(200) PRIMARY KEY, sql TEXT NOT NULL,"
            " created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL)"
        )
        connection.exec_driver_sql("INSERT INTO pipelines VALUES ('old', 'SELECT 1', 1, 1)")
    engine.dispose()
    store = JobStore(str(path)).pipelines
    assert store.get("old").udf_source is None
    store.put("old", "SELECT 1", "code", 2)
    assert JobStore(str(path)).pipelines.get("old").udf_source == "code"
