"""Options: what is accepted, what it becomes, and how a mistake is named."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headgate.connectors.options import (
    ConnectorOptions,
    moment_us,
    parse_options,
)
from headgate.connectors.registry import connector, connectors
from headgate.connectors.single_file.config import SingleFileSinkOptions
from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import UserError
from headgate.core.graph import Column

VALUE = (Column(name="value", type="string"),)


def test_unknown_connector_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown connector 'kafkaesque'.*filesystem, impulse"):
        connector("kafkaesque")


def test_unknown_option_is_named_as_the_dialect_says() -> None:
    with pytest.raises(UserError) as caught:
        connector("impulse").validate("source", {"event_rate": 1, "x": 2}, ())
    assert caught.value.message == "unknown options provided in WITH clause: 'x'"


def test_missing_option_is_named() -> None:
    with pytest.raises(UserError, match="required option 'path' is missing"):
        connector("single_file").validate("sink", {"format": "json"}, ())


def test_wrong_role_says_what_the_connector_is() -> None:
    with pytest.raises(UserError, match="connector 'impulse' cannot be a sink: it is a source"):
        connector("impulse").validate("sink", {}, ())


@pytest.mark.parametrize(
    ("name", "role", "options"),
    [
        ("impulse", "source", {"event_rate": "10", "interval": "1 second", "message_count": "5"}),
        ("impulse", "source", {"event_time_interval": 1_000_000, "start_time": 1_700_000_000_000}),
        ("nexmark", "source", {"event_rate": 1000, "runtime": "10", "events": 7}),
        ("single_file", "source", {"path": "a.json", "format": "json", "bad_data": "drop"}),
        ("single_file", "sink", {"path": "a.json", "overwrite": "true"}),
        (
            "filesystem",
            "source",
            {"path": "d", "format": "parquet", "source.regex-pattern": "x", "read_mode": "bounded"},
        ),
        (
            "filesystem",
            "sink",
            {
                "path": "s3://b/d",
                "format": "parquet",
                "rollover_seconds": 60,
                "target_file_size": "10MB",
                "partition_by": ["a", "b"],
                "storage.region": "here",
            },
        ),
        ("stdout", "sink", {"format": "json"}),
        ("preview", "sink", {"path": "p"}),
        ("blackhole", "sink", {}),
    ],
)
def test_normalized_options_normalize_into_themselves(
    name: str, role: Any, options: dict[str, Any]
) -> None:
    once = connector(name).validate(role, options, ())
    assert connector(name).validate(role, once, ()) == once


def test_older_spellings_become_todays_names() -> None:
    options = connector("filesystem").validate(
        "sink",
        {"path": "d", "format": "json", "target_file_size": "1KiB", "partition_fields": "a, b"},
        (),
    )
    assert options["rolling_policy.file_size"] == 1024
    assert options["partitioning.fields"] == ["a", "b"]


def test_connector_and_type_are_not_options_of_the_connector() -> None:
    connector("blackhole").validate("sink", {"connector": "blackhole", "type": "sink"}, ())


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10s", 10**10),
        ("1 minute 30 seconds", 90 * 10**9),
        ("500ms", 5 * 10**8),
        ("1.5 hours", 5400 * 10**9),
        ("7us", 7_000),
        ("2 days", 2 * 86_400 * 10**9),
    ],
)
def test_durations_as_people_write_them(text: str, nanoseconds: int) -> None:
    assert parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "soon", "10", "5 parsecs", "s5"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_nanoseconds(text)


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("2023-01-01T00:00:00Z", 1_672_531_200_000_000),
        ("2023-01-01T02:00:00+02:00", 1_672_531_200_000_000),
        ("2023-01-01", 1_672_531_200_000_000),
        (1_672_531_200_123, 1_672_531_200_123_000),
        ("1672531200123", 1_672_531_200_123_000),
    ],
)
def test_moments_as_people_write_them(written: object, microseconds: int) -> None:
    options = connector("impulse").validate("source", {"start_time": written}, ())  # type: ignore[dict-item]
    assert moment_us(str(options["start_time"])) == microseconds


def test_bad_value_names_option_and_reason() -> None:
    with pytest.raises(UserError, match=r"invalid value for option 'format'.*'json', "):
        connector("single_file").validate("source", {"path": "a", "format": "xml"}, ())


def test_raw_string_needs_exactly_the_column_value() -> None:
    options: dict[str, Any] = {"path": "a", "format": "raw_string"}
    connector("single_file").validate("source", options, VALUE)
    with pytest.raises(UserError, match="exactly one column, `value TEXT`"):
        connector("single_file").validate("source", options, (Column(name="a", type="string"),))


def test_partition_field_must_be_a_column() -> None:
    options: dict[str, Any] = {"path": "a", "format": "json", "partition_by": "nope"}
    with pytest.raises(UserError, match="'nope', which the table lacks"):
        connector("filesystem").validate("sink", options, VALUE)


def test_regular_expression_must_compile() -> None:
    options: dict[str, Any] = {"path": "a", "format": "json", "source.regex_pattern": "("}
    with pytest.raises(UserError, match="no regular expression"):
        connector("filesystem").validate("source", options, VALUE)


def test_only_changes_make_a_table_updating() -> None:
    single_file = connector("single_file")
    plain = single_file.validate("sink", {"path": "a"}, ())
    changes = single_file.validate("sink", {"path": "a", "format": "debezium_json"}, ())
    assert not single_file.is_updating("sink", plain)
    assert single_file.is_updating("sink", changes)
    assert connector("preview").is_updating("sink", {})
    assert not connector("impulse").is_updating("source", {})


def test_options_are_frozen() -> None:
    options = parse_options(SingleFileSinkOptions, {"path": "a"})
    with pytest.raises(ValueError, match="frozen"):
        options.path = "b"  # type: ignore[misc]


def test_every_connector_declares_option_sets() -> None:
    for found in connectors():
        for part in found.parts.values():
            assert issubclass(part.options, ConnectorOptions)
            for name, option in part.options.model_fields.items():
                assert option.description, f"option {name} of {found.name} has no help"


def test_planning_does_not_import_spark() -> None:
    code = (
        "import sys, headgate.connectors.registry as r;"
        "r.connector('filesystem').validate('sink', {'path': 'a', 'format': 'json'}, ());"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
