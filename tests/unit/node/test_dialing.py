"""URLs of services, and what their refusals mean."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headgate.core.errors import ExternalError, UserError
from headgate.node.dialing import NotWanted, check_url, dial
from tests.unit.server.serving import serving

TOKEN = "correct horse battery staple"


def test_address_of_the_link_follows_from_the_url() -> None:
    assert check_url("http://gate:8642/") == "ws://gate:8642/api/v1/nodes/link"
    assert check_url("https://gate/under") == "wss://gate/under/api/v1/nodes/link"


@pytest.mark.parametrize("url", ["gate:8642", "ftp://gate", "http://", ""])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="write http://host:port"):
        check_url(url)


def test_service_that_is_not_there_may_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (
        pytest.raises(ExternalError, match="does not answer"),
        dial(f"http://127.0.0.1:{port}", None, None),
    ):
        pass


def test_authority_that_cannot_be_read_is_named() -> None:
    with (
        pytest.raises(UserError, match="/no/such/file"),
        dial("https://127.0.0.1:1", None, "/no/such/file"),
    ):
        pass


@pytest.mark.parametrize("token", [None, "some other words here"])
def test_wrong_token_is_refused_at_the_door(tmp_path: Path, token: str | None) -> None:
    with serving(tmp_path, token=TOKEN) as running:
        with pytest.raises(NotWanted, match="HEADGATE_TOKEN"), dial(running.url, token, None):
            pass
        with dial(running.url, TOKEN, None) as connection:
            assert connection.protocol.state.name == "OPEN"
