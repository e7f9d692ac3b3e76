"""Secrets are named in SQL and known only where they are used."""

from __future__ import annotations

import pytest
from pydantic import Field

from headgate.connectors.options import ConnectorOptions, dump_options, parse_options
from headgate.connectors.secrets import Secret, Secrets, check_named
from headgate.core.errors import UserError


class Options(ConnectorOptions):
    password: Secret = Field(description="how to get in")


def test_a_secret_in_plain_text_is_refused_without_being_repeated() -> None:
    with pytest.raises(UserError) as caught:
        parse_options(Options, {"password": "hunter2"})
    assert "'password'" in caught.value.message
    assert "{{ NAME }}" in caught.value.message
    assert "hunter2" not in str(caught.value)


def test_the_normalized_options_hold_the_name() -> None:
    parsed = parse_options(Options, {"password": "{{ DATABASE_PASSWORD }}"})
    assert dump_options(parsed) == {"password": "{{ DATABASE_PASSWORD }}"}


def test_names_are_replaced_where_the_connection_is_opened() -> None:
    secrets = Secrets({"USER": "ada", "WORD": "hunter2"})
    assert secrets.resolve("url", "{{USER}}:{{ WORD }}@db") == "ada:hunter2@db"


def test_a_name_that_is_not_set_is_an_error_that_says_where_to_set_it() -> None:
    with pytest.raises(UserError, match="environment variable WORD is not set") as caught:
        Secrets({}).resolve("password", "{{ WORD }}")
    assert caught.value.code == "secret"


def test_values_are_taken_out_of_the_texts_of_errors() -> None:
    secrets = Secrets({"WORD": "hunter2", "LONGER": "hunter2 and more", "SHORT": "a"})
    for name in ("WORD", "LONGER", "SHORT"):
        secrets.resolve("x", f"{{{{ {name} }}}}")
    scrubbed = secrets.scrub("cannot log in with 'hunter2', 'hunter2 and more' or 'a'")
    assert scrubbed == "cannot log in with '***', '***' or 'a'"


@pytest.mark.parametrize("option", ["sasl.password", "ssl.key.password", "client.secret"])
def test_an_option_of_a_client_is_a_secret_by_its_name(option: str) -> None:
    with pytest.raises(ValueError, match="must not be part of a pipeline"):
        check_named(option, "hunter2")
    assert check_named(option, "{{ WORD }}") == "{{ WORD }}"
    assert check_named("security.protocol", "SASL_SSL") == "SASL_SSL"
