"""Where a service tells others that it is found."""

from __future__ import annotations

import socket

import pytest

from headgate.config import ServerConfig, load_config
from headgate.core.errors import UserError
from headgate.server.listen import advertised_url, bind


def test_service_is_found_where_it_listens() -> None:
    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert advertised_url(ServerConfig(), listening) == f"http://127.0.0.1:{port}"


def test_service_that_listens_everywhere_is_found_under_the_machine_s_name() -> None:
    with bind("0.0.0.0", 0) as listening:
        port = listening.getsockname()[1]
        assert advertised_url(ServerConfig(), listening) == f"http://{socket.getfqdn()}:{port}"


def test_service_behind_a_proxy_says_where_it_is_found() -> None:
    with bind("127.0.0.1", 0) as listening:
        config = ServerConfig(advertise_url="https://a.example")
        assert advertised_url(config, listening) == "https://a.example"


@pytest.mark.parametrize("wrong", ["a:8642", "http://a/path", "ftp://a", "http://"])
def test_url_that_cannot_be_asked_is_refused(wrong: str) -> None:
    with pytest.raises(UserError, match=r"server\.advertise_url"):
        load_config(environment={"HEADGATE_SERVER_ADVERTISE_URL": wrong})
