"""Names that begin with an underscore are Headgate's own, at every entrance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate import Pipeline
from headgate.cli.app import app
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.core.names import check_name, refuse_reserved
from tests.unit.controller.support import job_spec, new_controller
from tests.unit.server.serving import serving, sql

RESERVED = ["_spares", "_preview-x", "_"]


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_name_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UserError, match="reserved") as refused:
        refuse_reserved(name, what="job")
    assert refused.value.code == "name_reserved"
    # As a part of a path it is fine: Headgate's own jobs have folders, too.
    assert check_name(name, what="job") == name
    assert refuse_reserved("orders_1", what="job") == "orders_1"


@pytest.mark.parametrize("name", RESERVED)
def test_controller_creates_and_attaches_no_job_of_a_reserved_name(
    tmp_path: Path, name: str
) -> None:
    controller = new_controller(tmp_path)
    spec = job_spec(tmp_path)
    try:
        with pytest.raises(UserError, match="reserved"):
            controller.create_job(spec, JobId(name))
        with pytest.raises(UserError, match="reserved"):
            controller.create_job(replace(spec, name=name))
        with pytest.raises(UserError, match="reserved"):
            controller.attach_job(replace(spec, name=name))
        with pytest.raises(UserError, match="reserved"):
            controller.savepoint(JobId("orders"), name)
        with pytest.raises(UserError, match="cannot be the name"):
            controller.create_job(spec, JobId("../x"))
        assert controller.job_statuses() == []
    finally:
        controller.close()


def test_service_takes_no_reserved_name(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        job = running.start("endless")
        running.wait(job, lambda view: view["committed_epoch"] >= 1)
        text = {"pipeline": "p", "sql": sql(tmp_path, "p")}
        asked: list[tuple[str, dict[str, Any]]] = [
            ("/api/v1/jobs", {**text, "id": "_preview-x"}),
            ("/api/v1/jobs", {**text, "pipeline": "_spares"}),
            ("/api/v1/pipelines", {"name": "_p", "sql": sql(tmp_path, "p")}),
            (f"/api/v1/jobs/{job}/fork", {**text, "id": "_spares"}),
            (f"/api/v1/jobs/{job}/savepoints", {"name": "_keep"}),
            ("/api/v1/jobs/_preview-x/stop", {"mode": "force"}),
        ]
        for path, body in asked:
            answer = running.client.post(path, json=body)
            assert answer.status_code == 422, path
            assert "reserved" in answer.json()["detail"], path
        assert [view["job"] for view in running.get("/api/v1/jobs")] == [job]
        assert not (tmp_path / "state" / "_spares").exists()


def test_pipeline_of_a_reserved_name_is_not_run(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    pipeline.source("numbers", connector="impulse", columns={"counter": int}, event_rate=1)
    pipeline.sink("out", connector="blackhole", query="SELECT counter FROM numbers")
    with pytest.raises(UserError, match="reserved"):
        pipeline.run(name="_spares", state_dir=str(tmp_path / "state"))


def test_commands_refuse_a_reserved_name(tmp_path: Path) -> None:
    file = tmp_path / "p.sql"
    file.write_text(sql(tmp_path))
    state = ("--state-dir", str(tmp_path / "state"))
    done = CliRunner().invoke(app, ["run", str(file), "--name", "_spares", *state])
    assert isinstance(done.exception, UserError)
    assert done.exception.code == "name_reserved"
