"""Who may ask, from where, and how much they may send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from headgate.core.errors import UserError
from headgate.server import problems
from headgate.server.guards import AccessGuard, BodyLimit, check_listening, is_loopback

TOKEN = "correct horse battery staple"


def application(token: str | None = None) -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    problems.install(app)
    app.add_middleware(BodyLimit, bytes_max=1_000)
    app.add_middleware(AccessGuard, token=token, hosts=("gate.internal",))
    return app


def ask(token: str | None = None, *, url: str = "http://127.0.0.1:8642", **arguments: Any) -> Any:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(application(token))
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            return await client.post("/echo", **arguments)

    return asyncio.run(run())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_listening(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "gate.internal", ""])
def test_anywhere_else_needs_a_token(host: str) -> None:
    with pytest.raises(UserError, match="without a token"):
        check_listening(host, None)
    check_listening(host, TOKEN)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer h\u00e9",
    ],
)
def test_request_without_the_right_token_is_refused(header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = ask(TOKEN, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"
    assert TOKEN not in answer.text


def test_request_with_the_token_is_answered_under_any_name() -> None:
    headers = {"Authorization": f"bearer {TOKEN}"}
    assert ask(TOKEN, url="http://elsewhere", headers=headers).status_code == 200


@pytest.mark.parametrize("url", ["http://evil.example", "http://127.0.0.1.evil.example:8642"])
def test_foreign_host_name_is_refused_without_a_token(url: str) -> None:
    answer = ask(url=url)
    assert (answer.status_code, answer.json()["code"]) == (403, "host_refused")


def test_host_that_is_no_address_is_refused() -> None:
    answer = ask(headers={"Host": "[::1"})
    assert (answer.status_code, answer.json()["code"]) == (403, "host_refused")


@pytest.mark.parametrize("url", ["http://localhost:1", "http://[::1]:1", "http://gate.internal"])
def test_own_host_names_are_answered(url: str) -> None:
    assert ask(url=url).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_page_of_another_origin_is_refused(origin: str) -> None:
    answer = ask(headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")
    assert ask(headers={"Origin": "http://127.0.0.1:8642"}).status_code == 200


def test_body_up_to_the_limit_is_taken() -> None:
    assert ask(content=b"x" * 1_000).json() == 1_000


def test_declared_body_over_the_limit_is_refused() -> None:
    answer = ask(content=b"x" * 1_001)
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"
    assert answer.headers["content-type"] == "application/problem+json"


def test_streamed_body_over_the_limit_is_refused() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"x" * 100

    answer = ask(content=chunks())
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"
