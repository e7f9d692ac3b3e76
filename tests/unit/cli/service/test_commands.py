"""The commands against a service: tables for people, JSON for programs, clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate.cli.app import app
from headgate.cli.service.client import service_url
from headgate.config import Config, ServerConfig, load_config
from headgate.core.errors import ExternalError, UserError
from tests.unit.server.serving import Running, sql


def invoke(running: Running, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--url", running.url])


def command(running: Running, *arguments: str) -> str:
    """Run a command that succeeds; return what it printed."""
    result = invoke(running, *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def command_json(running: Running, *arguments: str) -> Any:
    return json.loads(command(running, *arguments, "--json"))


@pytest.fixture
def query(running: Running, tmp_path: Path) -> Path:
    file = tmp_path / "endless.sql"
    # The service knows the pipeline by the name of the file: its text must be the same.
    file.write_text(sql(running.folder, "endless"))
    return file


def test_job_is_driven_through_its_life(running: Running, query: Path) -> None:
    job = command_json(running, "start", str(query), "--checkpoint-interval", "1h")["job"]
    running.wait_for_state(job, "running")
    assert job in command(running, "jobs")
    assert [view["job"] for view in command_json(running, "jobs", "--pipeline", "endless")] == [job]
    assert "pipeline endless" in command(running, "jobs", "show", job)
    assert "epoch 1 is committed" in command(running, "checkpoint", job)
    assert f"savepoint keep: epoch 2 of job {job}" in command(running, "savepoint", job, "keep")
    rescaled = command(running, "rescale", job, "3")
    assert f"job {job} is running" in rescaled
    assert "parallelism 3" in rescaled
    assert f"job {job} is stopped" in command(running, "stop", job)
    restarted = command_json(running, "restart", job, "--parallelism", "1")
    assert (restarted["state"], restarted["generation"], restarted["parallelism"]) == (
        "running",
        3,
        1,
    )
    assert "generation 3 of" in command(running, "logs", job)
    assert "generation 1 of" in command(running, "logs", job, "--generation", "1")
    assert command_json(running, "logs", job)["generations"] == [1, 2, 3]
    assert command_json(running, "stop", job, "--mode", "force")["state"] == "stopped"
    history = command(running, "jobs", "history", job)
    assert "running" in history
    assert "savepoint" in history
    assert command(running, "jobs", "errors", job)
    assert command_json(running, "jobs", "recoveries", job) == []
    assert command_json(running, "jobs", "delete", job) == {"deleted": job}


def test_pipelines_are_managed(running: Running, query: Path) -> None:
    assert "headgate start mine" in command(
        running, "pipelines", "create", str(query), "--name", "mine"
    )
    taken = invoke(running, "pipelines", "create", str(query), "--name", "mine")
    assert isinstance(taken.exception, UserError)
    assert taken.exception.code == "pipeline_exists"
    command(running, "pipelines", "create", str(query), "--name", "mine", "--replace")
    assert "mine" in command(running, "pipelines")
    assert "CREATE TABLE endless" in command(running, "pipelines", "show", "mine")
    assert "source-endless" in command(running, "pipelines", "graph", "mine")
    assert command_json(running, "pipelines", "validate", str(query))["valid"]
    command(running, "pipelines", "delete", "mine")
    assert "mine" not in [p["name"] for p in command_json(running, "pipelines")]


def test_stored_pipeline_is_started_by_its_name(running: Running, query: Path) -> None:
    command(running, "pipelines", "create", str(query), "--name", "by_name")
    assert "job named is" in command(running, "start", "by_name", "--id", "named")
    command(running, "stop", "named", "--mode", "force")


def test_refused_sql_is_shown_with_a_caret_and_exit_code_2(
    running: Running, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.sql"
    file.write_text("SELECT\n  1 +;")
    for arguments in (("start", str(file)), ("pipelines", "validate", str(file))):
        result = invoke(running, *arguments)
        assert result.exit_code == 2
        assert result.stderr.rstrip().endswith("^")


def test_events_are_printed_as_json_lines(running: Running, query: Path) -> None:
    from headgate.cli.service.client import ServiceClient
    from headgate.cli.service.follow import _events

    job = command_json(running, "start", str(query))["job"]
    running.wait_for_state(job, "running")
    events = _events(ServiceClient(running.url, None), f"/jobs/{job}/events", True)
    first = next(events)
    assert (first.kind, first.data["before"]) == ("StateChanged", "created")
    events.close()
    command(running, "stop", job, "--mode", "force")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stop", "nobody"), "no job nobody"),
        (("stop", "nobody", "--mode", "gently"), "it is one of checkpoint"),
        (("restart", "nobody", "--mode", "gently"), "it is one of safe"),
        (("start", "nobody"), "no pipeline nobody"),
        (("start", "nobody", "--name", "x"), "belong to a SQL file"),
        (("start", "nofile.sql"), "cannot read"),
        (("logs", "nobody"), "no job nobody"),
        (("events", "nobody"), "no job nobody"),
        (("checkpoint", "nobody"), "no job nobody"),
    ],
)
def test_refusals_say_what_is_wrong(
    running: Running, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke(running, *arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, UserError)
    assert message in result.exception.message


def test_absent_service_is_named_with_what_to_do() -> None:
    result = CliRunner().invoke(app, ["jobs", "--url", "http://127.0.0.1:1"])
    assert isinstance(result.exception, ExternalError)
    assert "start one with `headgate serve`" in result.exception.message


def test_service_that_is_open_to_a_network_needs_a_long_token() -> None:
    result = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0"])
    assert isinstance(result.exception, UserError)
    assert result.exception.code == "token_required"
    short = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--token", "short"])
    assert isinstance(short.exception, UserError)
    assert "at least 16 characters" in short.exception.message


def test_taken_port_is_named(running: Running, tmp_path: Path) -> None:
    port = running.url.rpartition(":")[2]
    result = CliRunner().invoke(app, ["serve", "--port", port, "--state-dir", str(tmp_path)])
    assert isinstance(result.exception, ExternalError)
    assert f"cannot listen on 127.0.0.1:{port}" in result.exception.message


def test_service_is_found_where_the_settings_say(tmp_path: Path) -> None:
    assert service_url(Config()) == "http://127.0.0.1:8642"
    assert service_url(Config(server=ServerConfig(host="0.0.0.0", port=7))) == "http://127.0.0.1:7"
    assert service_url(Config(server=ServerConfig(host="::1", port=7))) == "http://[::1]:7"
    named = load_config(environment={"HEADGATE_URL": "http://h:1"}).config
    assert service_url(named) == "http://h:1"


def test_settings_are_shown_with_their_origin_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text("[server]\nport = 99\n")
    monkeypatch.setenv("HEADGATE_TOKEN", "correct-horse-battery")
    result = CliRunner().invoke(app, ["config", "--config", str(file), "--json"])
    shown = json.loads(result.stdout)
    assert shown["server.port"] == {"value": 99, "origin": str(file)}
    assert shown["server.token"] == {"value": "(set)", "origin": "HEADGATE_TOKEN"}
    assert shown["job.master"]["origin"] == "default"


def test_damaged_epoch_is_skipped_only_by_a_restart_that_allows_it(
    running: Running, query: Path
) -> None:
    job = command_json(running, "start", str(query), "--checkpoint-interval", "1h")["job"]
    running.wait_for_state(job, "running")
    command(running, "checkpoint", job)
    command(running, "stop", job, "--mode", "force")
    folder = Path(running.get(f"/api/v1/jobs/{job}")["state_url"]) / job
    sorted(folder.glob("generations/*/**/manifest.json"))[-1].write_text("{")
    refused = invoke(running, "restart", job, "--mode", "forced")
    assert refused.exit_code == 1
    failed = running.get(f"/api/v1/jobs/{job}")
    assert failed["error"]["code"] == "unrecoverable_epoch"
    assert "--allow-skip-published" in failed["error"]["message"]
    assert command_json(running, "restart", job, "--allow-skip-published")["state"] == "running"
    assert running.get(f"/api/v1/jobs/{job}")["allow_skip_published"]
    # It was allowed for that start; the next one asks again.
    command(running, "restart", job)
    assert not running.get(f"/api/v1/jobs/{job}")["allow_skip_published"]
    command(running, "stop", job, "--mode", "force")


def test_savepoint_is_deleted_and_its_name_is_free_again(running: Running, query: Path) -> None:
    job = command_json(running, "start", str(query), "--checkpoint-interval", "1h")["job"]
    running.wait_for_state(job, "running")
    command(running, "savepoint", job, "keep")
    taken = invoke(running, "savepoint", job, "keep")
    assert isinstance(taken.exception, UserError)
    assert f"`headgate savepoint {job} keep --delete`" in taken.exception.message
    assert "keep of job" in command(running, "savepoint", job, "keep", "--delete")
    assert running.get(f"/api/v1/jobs/{job}/savepoints") == []
    gone = invoke(running, "savepoint", job, "keep", "--delete")
    assert isinstance(gone.exception, UserError)
    assert gone.exception.code == "no_such_savepoint"
    assert "epoch 2" in command(running, "savepoint", job, "keep")
    command(running, "stop", job, "--mode", "force")


# ---- several services ------------------------------------------------------------------------


def test_controllers_are_listed(running: Running) -> None:
    (view,) = command_json(running, "controllers")
    assert (view["here"], view["silent"], view["url"]) == (True, False, None)
    assert "answers here" in command(running, "controllers")


def test_first_of_several_services_that_answers_is_asked(running: Running) -> None:
    nobody = "http://127.0.0.1:9"
    for urls in (f"{nobody}, {running.url}", f"{running.url},{nobody}"):
        result = CliRunner().invoke(app, ["jobs", "--json", "--url", urls])
        assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["jobs", "--url", f"{nobody},{nobody}"])
    assert isinstance(result.exception, ExternalError)
    assert result.exception.code == "no_service"
