"""The settings of Headgate: one schema, filled from `headgate.toml`, the environment and flags.

Later sources win: defaults, file, environment (`HEADGATE_<SECTION>_<KEY>`), flags. A key that is
not in the schema is refused by its name. Read `Config` first: it is the documented list.

Why not pydantic-settings: it reads the process's environment whenever a `Config` is made, passes
over variables that it does not know, cannot say where a value came from, and takes 0.1 s to import.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from headgate.core.durations import parse_duration_ms
from headgate.core.errors import UserError
from headgate.core.suggestions import did_you_mean

FILE_NAME = "headgate.toml"
PREFIX = "HEADGATE_"
FILE_VARIABLE = "HEADGATE_CONFIG"
# Names that people expect, beside the systematic ones.
_ALIASES = {
    "HEADGATE_TOKEN": "server.token",
    "HEADGATE_URL": "client.url",
    "HEADGATE_CA": "client.ca",
}
# Variables of ours that are not settings.
_OTHERS = (
    FILE_VARIABLE,
    "HEADGATE_FAILPOINTS",
    "HEADGATE_FAILPOINTS_DIR",
    "HEADGATE_SHELL_HISTORY",
    "HEADGATE_WORKER_TOKEN",
)
# Kubernetes gives every pod variables of this form for a service that is called "headgate".
_FOREIGN = ("HEADGATE_SERVICE_", "HEADGATE_PORT")
# How alike an unknown variable and a known one must be to be taken for a slip of the pen.
_ALIKE = 0.75
# Plain paths in the file are meant from the file's folder, not from wherever one happens to be.
_PATHS = (
    "state_url",
    "server.tls_certificate",
    "server.tls_key",
    "client.ca",
    "controller.data_dir",
    "controller.database_url",
    "job.package",
    "job.scratch_url",
)
SECRETS = ("server.token", "controller.database_url")


def _milliseconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return parse_duration_ms(str(value))
    except UserError as error:
        raise ValueError(error.message) from error


def _interval(value: object) -> object:
    return value if value == "auto" else _milliseconds(value)


# Written as `10s`, `500ms`, `2m` or a number of seconds; kept in milliseconds.
PositiveDuration = Annotated[int, Field(ge=1), BeforeValidator(_milliseconds)]
Interval = Annotated[
    Annotated[int, Field(ge=0)] | Literal["auto"],
    BeforeValidator(_interval),
]


class Section(BaseModel):
    """A frozen table of settings that knows all of its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerConfig(Section):
    """The service: `headgate serve`."""

    host: str = Field("127.0.0.1", description="Where to listen. Elsewhere only with a token.")
    port: int = Field(8642, ge=0, le=65535, description="The port; 0 = any free one.")
    token: str | None = Field(
        None, min_length=16, description="Every request must carry it; better in the environment."
    )
    advertise_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+$",
        description="Where other services send those who ask for a job of this one; default: where"
        " it listens, under this machine's name if that is everywhere.",
    )
    tls_certificate: str | None = Field(
        None, description="PEM file; with it the service speaks HTTPS only."
    )
    tls_key: str | None = Field(
        None, description="PEM file with its key; default: in the certificate's file."
    )
    body_bytes_max: int = Field(
        2 * 1024 * 1024, ge=1024, description="Larger request bodies are refused with 413."
    )
    sql_bytes_max: int = Field(
        1024 * 1024, ge=1, description="Larger SQL texts and UDF files are refused with 413."
    )
    events_kept: int = Field(10_000, ge=1, description="Events that a reconnecting client can get.")
    streams_max: int = Field(200, ge=1, description="Live event streams at the same time.")
    stalled_after: PositiveDuration = Field(
        120_000,
        description="A running job that should get on and does not, for so long, raises an alarm.",
    )


class ClientConfig(Section):
    """The commands that talk to a service."""

    url: str | None = Field(
        None,
        description="The service, or several with commas between them: the first that answers is"
        " asked; default: what `server` says.",
    )
    ca: str | None = Field(
        None, description="PEM file of the authority that signed the service's certificate."
    )


class ControllerConfig(Section):
    """What drives the jobs."""

    database_url: str | None = Field(
        None, description="`sqlite:///path`, `postgresql://...`; default: a file in `data_dir`."
    )
    data_dir: str | None = Field(
        None,
        description="Logs and scratch; default: `.local` below the state, if that is local.",
    )
    slots: int | None = Field(
        None, ge=1, description="Spark cores that jobs share; a job that does not fit waits."
    )
    lease_ttl: PositiveDuration = Field(
        15_000, description="After so long another controller may take over a vanished one's jobs."
    )
    warm_spares: int = Field(
        0, ge=0, le=100, description="Workers kept ready to take over a job whose worker died."
    )
    worker_command: tuple[str, ...] | None = Field(
        None, min_length=1, description="What starts a worker; default: this Python."
    )
    workers: Literal["auto", "here", "nodes"] = Field(
        "auto", description="Where they run; `auto` = on nodes if any has joined, else here."
    )
    node_timeout: PositiveDuration = Field(
        15_000, description="A node that is silent for this long is lost, with its workers."
    )


class RetentionConfig(Section):
    """How long traces of jobs are kept. Checkpoints: `job.retained_checkpoints`."""

    transitions: int = Field(
        10_000, ge=1, description="Changes of state that a job's history keeps."
    )
    transitions_age: PositiveDuration = Field(31_536_000_000, description="None older than this.")
    notes: int = Field(
        10_000, ge=1, description="Other entries of a history (phases, cleanups, ...), per kind."
    )
    notes_age: PositiveDuration = Field(604_800_000, description="None older than this.")
    checkpoint_notes: int = Field(
        1_000, ge=1, description="Times and sizes of a job's newest checkpoints, in the database."
    )
    worker_logs: int = Field(20, ge=1, description="Logs of a job's newest workers.")
    worker_log_bytes: int = Field(
        67_108_864, ge=4_096, description="A larger log is moved to `.log.1`, which it replaces."
    )
    deleted_jobs_age: PositiveDuration = Field(
        86_400_000, description="Logs of deleted jobs, and folders of unknown ones, go after this."
    )


class JobConfig(Section):
    """How jobs are run if they do not say otherwise."""

    parallelism: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Subtasks per operator; default: one per core, at most 4.",
    )
    checkpoint_interval: Interval = Field(
        10_000, description="`0` = as often as possible; `auto` = from cost and `recovery_time`."
    )
    checkpoint_timeout: PositiveDuration = Field(
        600_000, description="A checkpoint that takes longer is given up and tried again."
    )
    recovery_time: PositiveDuration = Field(
        60_000, description="For `auto`: from a failure to being caught up again."
    )
    retained_checkpoints: int = Field(10, ge=1, description="Older ones are deleted.")
    restarts_max: int = Field(
        20, ge=-1, description="Failures in a row that are borne; -1 = any number."
    )
    healthy_after: PositiveDuration = Field(
        120_000, description="A run of this length gets the whole restart budget back."
    )
    backoff_max: PositiveDuration = Field(60_000, description="The longest wait before a restart.")
    heartbeat_interval: PositiveDuration = Field(1_000, description="How often a worker reports.")
    heartbeat_timeout: PositiveDuration = Field(
        30_000, description="A worker that is silent for this long is lost."
    )
    stop_grace: PositiveDuration = Field(
        60_000, description="A worker that is told to stop is killed after this long."
    )
    max_batch_rows: int = Field(
        1_000_000, ge=1, description="Most rows of a source in one micro-batch."
    )
    source_idle: PositiveDuration = Field(
        60_000, description="A source without rows for this long does not hold the watermark back."
    )
    verify_checksums: bool = Field(True, description="Check what a restore loads.")
    scratch_url: str | None = Field(
        None,
        description="A folder that all hosts of a cluster share, for changes between barriers; "
        "default: the state store.",
    )
    master: str = Field("local", min_length=1, description="Spark master; `local` = this machine.")
    package: str | None = Field(
        None, description="What executors get: an archive made by `headgate package`."
    )
    shared_paths: tuple[str, ...] = Field(
        (), description="Folders that every host of the cluster sees under the same path."
    )
    spark: dict[str, str] = Field({}, description='Spark settings, `"spark.driver.memory" = "4g"`.')


class Config(Section):
    """All settings."""

    state_url: str = Field(
        ".headgate", min_length=1, description="Where checkpoints live: a folder or `s3://...`."
    )
    server: ServerConfig = ServerConfig()
    client: ClientConfig = ClientConfig()
    controller: ControllerConfig = ControllerConfig()
    retention: RetentionConfig = RetentionConfig()
    job: JobConfig = JobConfig()


def scheme_of(config: Config) -> str:
    """Return how the service is spoken to."""
    return "http" if config.server.tls_certificate is None else "https"


@dataclass(frozen=True)
class Setting:
    """One key of the schema."""

    key: str
    variable: str
    field: FieldInfo

    @property
    def is_structured(self) -> bool:
        """Whether its value is a list or a table: JSON, if it comes from the environment."""
        kinds = (self.field.annotation, *get_args(self.field.annotation))
        return any(get_origin(kind) in (tuple, dict) for kind in kinds)


@dataclass(frozen=True)
class Loaded:
    """The settings, and where each that is not a default came from."""

    config: Config
    origins: Mapping[str, str]


def settings() -> Iterator[Setting]:
    """Return every key, in the order of the documentation."""
    for name, field in Config.model_fields.items():
        section = field.annotation
        if not (isinstance(section, type) and issubclass(section, Section)):
            yield Setting(name, f"{PREFIX}{name.upper()}", field)
            continue
        for key, inner in section.model_fields.items():
            yield Setting(f"{name}.{key}", f"{PREFIX}{name}_{key}".upper(), inner)


def load_config(
    *,
    path: Path | None = None,
    environment: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Read all sources. `flags` are named by their keys; None = the flag was not given.

    Without `path`, the file that `HEADGATE_CONFIG` names, or `headgate.toml` here if there is one.
    """
    found: dict[str, tuple[object, str]] = {}
    file = _file(path, environment)
    if file is not None:
        found.update(_from_file(file))
    found.update(_from_environment(environment))
    for key, value in (flags or {}).items():
        if value is not None:
            found[key] = (value, "the command line")
    values: dict[str, Any] = {}
    for key, (value, _) in found.items():
        section, _, name = key.rpartition(".")
        (values.setdefault(section, {}) if section else values)[name] = value
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise _refused(error, {key: origin for key, (_, origin) in found.items()}) from error
    return Loaded(config, {key: origin for key, (_, origin) in found.items()})


def _file(path: Path | None, environment: Mapping[str, str]) -> Path | None:
    named = path or (Path(environment[FILE_VARIABLE]) if environment.get(FILE_VARIABLE) else None)
    if named is not None:
        return named
    return Path(FILE_NAME) if Path(FILE_NAME).exists() else None


def _from_file(path: Path) -> Iterator[tuple[str, tuple[object, str]]]:
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise _error(f"cannot read the settings in '{path}': {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _error(f"{path} is not TOML: {error}") from error
    known = {setting.key for setting in settings()}
    sections = {key.partition(".")[0] for key in known if "." in key}
    for name, value in tables.items():
        if name in sections and isinstance(value, dict):
            entries = {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            entries = {name: value}
        for key, inner in entries.items():
            if key not in known:
                raise _unknown(key, known | sections, str(path))
            yield key, (_from_folder(key, inner, path.parent), str(path))


def _from_folder(key: str, value: object, folder: Path) -> object:
    if key in _PATHS and isinstance(value, str) and "://" not in value:
        return str(folder.absolute() / value)
    return value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, tuple[object, str]]]:
    known = {setting.variable: setting for setting in settings()}
    by_key = {setting.key: setting for setting in settings()}
    known.update({alias: by_key[key] for alias, key in _ALIASES.items()})
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in _OTHERS or name.startswith(_FOREIGN):
            continue
        if name not in known:
            if _is_meant(name, known):
                raise _unknown(name, {*known, *_OTHERS}, "the environment")
            continue
        setting, text = known[name], environment[name]
        try:
            value = json.loads(text) if setting.is_structured else text
        except json.JSONDecodeError as error:
            raise _error(f"{name} must be JSON: {error}") from error
        yield setting.key, (value, name)


def _is_meant(name: str, known: Mapping[str, Setting]) -> bool:
    """Whether an unknown variable is meant for us: it names a section, or is nearly a known one.

    The environment is shared: what has nothing to do with our settings is left alone.
    """
    sections = {setting.key.partition(".")[0] for setting in settings() if "." in setting.key}
    rest = name.removeprefix(PREFIX)
    if rest.partition("_")[0].lower() in sections:
        return True
    return bool(
        difflib.get_close_matches(
            rest, [variable.removeprefix(PREFIX) for variable in known], n=1, cutoff=_ALIKE
        )
    )


def _unknown(name: str, known: set[str], origin: str) -> UserError:
    hint = did_you_mean(name, known) or ": see docs/configuration.md"
    return _error(f"unknown setting '{name}' in {origin}{hint}")


def _refused(error: ValidationError, origins: Mapping[str, str]) -> UserError:
    first = error.errors(include_url=False)[0]
    parts = [str(part) for part in first["loc"]]
    key = next((k for n in (2, 1) if (k := ".".join(parts[:n])) in origins), ".".join(parts))
    message = str(first["msg"]).removeprefix("Value error, ")
    return _error(f"{key} (from {origins.get(key, 'the settings')}): {message}")


def _error(message: str) -> UserError:
    return UserError(message, code="configuration")
