"""The settings: three sources in rising precedence, one schema, nothing unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.components import job_limits, job_spec
from headgate.config import Config, Loaded, load_config, settings
from headgate.core.errors import UserError


def load(tmp_path: Path, text: str = "", environment: dict[str, str] | None = None) -> Loaded:
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    return load_config(path=file, environment=environment or {})


def test_without_any_source_the_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = load_config(environment={})
    assert loaded.config == Config()
    assert loaded.origins == {}
    assert loaded.config.server.host == "127.0.0.1"


def test_file_in_the_working_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headgate.toml").write_text("[server]\nport = 1234\n")
    assert load_config(environment={}).config.server.port == 1234


def test_environment_wins_over_the_file_and_flags_win_over_both(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[server]\nport = 1\nhost = 'a'\nevents_kept = 7\n")
    environment = {
        "HEADGATE_CONFIG": str(file),
        "HEADGATE_SERVER_PORT": "2",
        "HEADGATE_SERVER_HOST": "b",
    }
    flags = {"server.port": 3, "server.host": None}
    loaded = load_config(environment=environment, flags=flags)
    assert loaded.config.server.port == 3
    assert loaded.config.server.host == "b"
    assert loaded.config.server.events_kept == 7
    assert loaded.origins == {
        "server.port": "the command line",
        "server.host": "HEADGATE_SERVER_HOST",
        "server.events_kept": str(file),
    }


@pytest.mark.parametrize(
    ("text", "named", "near"),
    [
        ("[server]\nprot = 1", "server.prot", "server.port"),
        ("[job]\ncheckpoint_intervall = '1s'", "job.checkpoint_intervall", "checkpoint_interval"),
        ("[servr]\nport = 1", "servr", "server"),
        ("stateurl = 'x'", "stateurl", "state_url"),
    ],
)
def test_unknown_key_of_the_file_is_refused_by_name(
    tmp_path: Path, text: str, named: str, near: str
) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert f"unknown setting '{named}'" in caught.value.message
    assert f"did you mean '{near}" in caught.value.message or near in caught.value.message
    assert "headgate.toml" in caught.value.message


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("HEADGATE_SERVER_PROT", "HEADGATE_SERVER_PORT"),
        ("HEADGATE_SERVR_PORT", "HEADGATE_SERVER_PORT"),
        ("HEADGATE_STATE_URI", "HEADGATE_STATE_URL"),
        ("HEADGATE_TOKN", "HEADGATE_TOKEN"),
    ],
)
def test_unknown_variable_is_refused_by_name(tmp_path: Path, name: str, near: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, environment={name: "1"})
    assert caught.value.message == (
        f"unknown setting '{name}' in the environment: did you mean `{near}`?"
    )


def test_variables_that_are_not_settings_are_left_alone(tmp_path: Path) -> None:
    environment = {
        "HEADGATE_FAILPOINTS": "",
        "HEADGATE_WORKER_TOKEN": "x",
        "HEADGATE_SERVICE_HOST": "10.0.0.1",
        "HEADGATE_PORT": "tcp://10.0.0.1:8642",
        "HEADGATE_PORT_8642_TCP": "tcp://10.0.0.1:8642",
        "HEADGATE_SIMULATION_SEED": "7",
        "PATH": "/bin",
    }
    assert load(tmp_path, environment=environment).config == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nport = 70000", "server.port (from "),
        ("[server]\nport = 'many'", "server.port (from "),
        ("[server]\ntoken = 'short'", "at least 16 characters"),
        ("[job]\ncheckpoint_interval = 'soon'", "'soon' is not a duration"),
        ("[job]\nparallelism = 0", "job.parallelism (from "),
        ("[job.spark]\na = 1", "job.spark (from "),
        ("server = 1", "unknown setting 'server'"),
        ("[server", "is not TOML"),
    ],
)
def test_wrong_value_is_refused_with_its_key_and_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert message in caught.value.message
    assert "headgate.toml" in caught.value.message


def test_missing_file_that_was_named_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        load_config(path=tmp_path / "none.toml", environment={})


def test_durations_become_milliseconds_and_reach_the_job(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[job]\ncheckpoint_interval = '500ms'\ncheckpoint_timeout = 90\nheartbeat_timeout = '1m'\n"
        "master = 'spark://h:1'\nparallelism = 3\n[job.spark]\n'spark.x' = 'y'\n",
    )
    spec = job_spec(loaded.config, name="p", sql="SELECT 1")
    assert spec.limits.checkpoint_interval_ms == 500
    assert spec.limits.checkpoint_timeout_ms == 90_000
    assert spec.limits.heartbeat_timeout_ms == 60_000
    assert (spec.parallelism, spec.master, spec.spark_conf) == (3, "spark://h:1", {"spark.x": "y"})


def test_interval_may_be_auto_or_zero(tmp_path: Path) -> None:
    auto = load(tmp_path, "[job]\ncheckpoint_interval = 'auto'").config
    assert job_limits(auto.job).checkpoint_interval_ms == "auto"
    zero = load(tmp_path, "[job]\ncheckpoint_interval = 0").config
    assert job_limits(zero.job).checkpoint_interval_ms == 0


def test_paths_of_the_file_are_meant_from_its_folder(tmp_path: Path) -> None:
    loaded = load(tmp_path, "state_url = 'state'\n[controller]\ndatabase_url = 'sqlite:///x.db'\n")
    assert loaded.config.state_url == str(tmp_path / "state")
    assert loaded.config.controller.database_url == "sqlite:///x.db"
    assert load(tmp_path, "state_url = 's3://b/p'").config.state_url == "s3://b/p"


def test_lists_and_tables_come_as_json_from_the_environment(tmp_path: Path) -> None:
    environment = {
        "HEADGATE_CONTROLLER_WORKER_COMMAND": '["python", "-m", "x"]',
        "HEADGATE_JOB_SPARK": '{"spark.a": "b"}',
    }
    config = load(tmp_path, environment=environment).config
    assert config.controller.worker_command == ("python", "-m", "x")
    assert config.job.spark == {"spark.a": "b"}
    with pytest.raises(UserError, match="HEADGATE_JOB_SPARK must be JSON"):
        load(tmp_path, environment={"HEADGATE_JOB_SPARK": "spark.a=b"})


def test_every_variable_names_one_key() -> None:
    found = list(settings())
    assert len({setting.variable for setting in found}) == len(found) > 25
    assert all(setting.field.description for setting in found)
