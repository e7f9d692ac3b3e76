"""What a person sees who changes a pipeline of a service: exit codes, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli.app import app
from tests.unit.server.serving import Running, sql


def invoke(running: Running, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--url", running.url])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.sql"


def test_a_changed_text_goes_its_way_from_refusal_to_upgrade(running: Running, file: Path) -> None:
    file.write_text(sql(running.folder, "endless_orders"))
    started = invoke(running, "start", str(file), "--id", "orders-1")
    assert started.exit_code == 0, started.output
    running.wait("orders-1", lambda view: view["committed_epoch"] > 0)
    file.write_text(sql(running.folder, "endless_sales"))

    refused = invoke(running, "start", str(file))
    assert refused.exit_code == 2
    assert "a pipeline orders is stored with another text" in refused.stderr
    assert "+CREATE TABLE endless_sales " in refused.stderr
    assert "headgate pipelines create FILE --name orders --replace" in refused.stderr
    assert invoke(running, "pipelines", "create", str(file), "--replace").exit_code == 0

    asked = invoke(running, "restart", "orders-1", "--update", "--check")
    assert asked.exit_code == 1
    assert "--allow-drop-state source-endless_orders" in asked.stdout
    assert "starting empty: source-endless_sales" in asked.stdout
    refused = invoke(running, "restart", "orders-1", "--update")
    assert refused.exit_code != 0
    assert "the changed pipeline cannot use all of the old state" in str(refused.exception)
    assert running.get("/api/v1/jobs/orders-1")["state"] == "running"

    allow = ("--allow-drop-state", "source-endless_orders")
    asked = invoke(running, "restart", "orders-1", "--update", "--check", *allow)
    assert asked.exit_code == 0, asked.output
    assert "job orders-1 would go on from epoch" in asked.stdout
    upgraded = invoke(running, "restart", "orders-1", "--update", *allow)
    assert upgraded.exit_code == 0, upgraded.output
    assert "dropped, as allowed:\n  source-endless_orders:" in upgraded.stderr
    assert "endless_sales" in running.get("/api/v1/jobs/orders-1")["sql"]
    invoke(running, "stop", "orders-1", "--mode", "force")


def test_another_name_or_leave_to_replace_starts_a_changed_text(
    running: Running, file: Path
) -> None:
    file = file.with_name("first.sql")
    file.write_text(sql(running.folder, "endless_first"))
    assert invoke(running, "pipelines", "create", str(file)).exit_code == 0
    file.write_text(sql(running.folder, "endless_second"))
    named = invoke(running, "start", str(file), "--name", "second", "--id", "second-1")
    assert named.exit_code == 0, named.output
    assert "endless_first" in running.get("/api/v1/pipelines/first")["sql"]
    replaced = invoke(running, "start", str(file), "--replace", "--id", "second-2")
    assert replaced.exit_code == 0, replaced.output
    assert "endless_second" in running.get("/api/v1/pipelines/first")["sql"]
    for job in ("second-1", "second-2"):
        invoke(running, "stop", job, "--mode", "force")


def test_a_relative_path_is_refused_with_the_one_that_was_meant(
    running: Running, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    file.write_text(sql(running.folder).replace(f"{running.folder}/out", "out"))
    for command in (("start",), ("pipelines", "create")):
        refused = invoke(running, *command, str(file), "--name", "relative")
        assert refused.exit_code == 2
        assert f"table 'out': 'out', write '{file.parent}/out'" in refused.stderr


def test_functions_beside_the_file_are_sent_with_it(running: Running, file: Path) -> None:
    text = sql(running.folder, "endless_f").replace("SELECT counter", "SELECT twice(counter)")
    file.write_text(text)
    file.with_suffix(".py").write_text("@udf\ndef twice(x: int) -> int:\n    return 2 * x\n")
    started = invoke(running, "start", str(file), "--name", "beside", "--id", "beside-1")
    assert started.exit_code == 0, (started.output, started.exception)
    assert "found beside the SQL" in started.stderr
    assert "def twice" in running.get("/api/v1/pipelines/beside")["udf_source"]
    invoke(running, "stop", "beside-1", "--mode", "force")
