"""What jobs leave beside themselves: their pipelines' texts, and counted requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.errors import UserError
from headgate.core.ids import JobId
from tests.unit.controller.support import GRAPH, job_spec, new_controller


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
