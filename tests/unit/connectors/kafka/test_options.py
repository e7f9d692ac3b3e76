"""Options of the kafka connector, and what of them is a secret."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.connectors.kafka.client import client_settings
from headgate.connectors.kafka.config import KafkaSinkOptions, KafkaSourceOptions
from headgate.connectors.options import dump_options, parse_options
from headgate.connectors.registry import connector
from headgate.connectors.secrets import Secrets
from headgate.core.errors import UserError
from headgate.testing import columns

WHERE = {"bootstrap_servers": "b:9092", "topic": "t"}
LOGIN = {
    "auth.type": "sasl",
    "auth.protocol": "SASL_SSL",
    "auth.mechanism": "SCRAM-SHA-256",
    "auth.username": "ada",
    "auth.password": "{{ KAFKA_PASSWORD }}",
}


def source(**options: Any) -> KafkaSourceOptions:
    return parse_options(KafkaSourceOptions, WHERE | options)


def test_normalized_options_validate_into_themselves() -> None:
    once = dump_options(
        source(**LOGIN, **{"client.ssl.ca.location": "/ca.pem", "client.queued.min.messages": 5})
    )
    assert dump_options(parse_options(KafkaSourceOptions, once)) == once


def test_settings_of_the_client_are_passed_through() -> None:
    options = source(
        client_configs="socket.keepalive.enable=true, fetch.min.bytes=7",
        **{"client.receive.message.max.bytes": 200_000_000, "client.debug": "all"},
    )
    settings = client_settings(options, Secrets({}))
    assert settings["socket.keepalive.enable"] == "true"
    assert settings["fetch.min.bytes"] == "7"
    assert settings["receive.message.max.bytes"] == "200000000"
    assert settings["debug"] == "all"


def test_a_login_takes_its_password_from_the_environment() -> None:
    settings = client_settings(source(**LOGIN), Secrets({"KAFKA_PASSWORD": "hunter2"}))
    assert settings["sasl.mechanisms"] == "SCRAM-SHA-256"
    assert settings["security.protocol"] == "SASL_SSL"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("ada", "hunter2")
    assert "hunter2" not in str(dump_options(source(**LOGIN)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**LOGIN, "auth.password": "hunter2"}, "must not be part of a pipeline"),
        ({"auth.type": "sasl"}, "needs auth.username and auth.password"),
        ({"client.sasl.password": "hunter2"}, "must not be part of a pipeline"),
        ({"client.group.id": "x"}, "'group.id' is set by the connector"),
        ({"client_configs": "a"}, "client_configs is 'name=value,...'"),
        ({"clients": "a"}, "unknown options provided in WITH clause: 'clients'"),
        ({"source.offset": "group"}, "needs source.group_id"),
        ({"source.group_id": "a", "source.group_id_prefix": "b"}, "exclude each other"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        source(**options)
    assert message in caught.value.message
    assert "hunter2" not in str(caught.value)


def test_older_spellings() -> None:
    found = source(offset="earliest", read_mode="read_uncommitted", group_id="g")
    assert (found.offset, found.read_mode, found.group_id) == ("earliest", "read_uncommitted", "g")


@pytest.mark.parametrize(
    ("options", "declared", "message"),
    [
        ({"sink.key_field": "x"}, columns(n="bigint"), "no column of the table: its columns are n"),
        ({"sink.timestamp_field": "n"}, columns(n="bigint"), "is bigint and must be timestamp"),
        ({"format": "raw_bytes"}, columns(n="bigint"), "exactly one column, `value BYTEA`"),
        ({"format": "raw_string"}, columns(n="bigint"), "exactly one column, `value TEXT`"),
    ],
)
def test_columns_that_do_not_fit(options: dict[str, Any], declared: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        connector("kafka").validate("sink", WHERE | options, declared)
    assert message in caught.value.message


def test_headers_are_no_part_of_the_value() -> None:
    options = {**WHERE, "format": "raw_string", "sink.headers_field": "h"}
    declared = columns(value="string", h="map<string,string>")
    assert connector("kafka").validate("sink", options, declared)["sink.headers_field"] == "h"


def test_a_sink_is_exactly_once_unless_it_says_otherwise() -> None:
    assert parse_options(KafkaSinkOptions, WHERE).commit_mode == "exactly_once"
