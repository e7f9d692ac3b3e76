"""What stands before every request: who may ask, from where, and how much they may send."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.core.errors import UserError
from headgate.server.api_page import is_public
from headgate.server.problems import Problem, problem, response

# A body that is too large is read up to this much and thrown away, so that the client, which is
# still sending, gets to read the answer.
DRAIN_BYTES_MAX = 64 * 1024 * 1024


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listening(host: str, token: str | None) -> None:
    """Refuse to be open to a network without a token: whoever may ask may run code."""
    if not is_loopback(host) and token is None:
        raise UserError(
            f"will not listen on {host} without a token, because whoever reaches the service can"
            " run code: give --token or HEADGATE_TOKEN (16 characters or more), or listen on"
            " 127.0.0.1",
            code="token_required",
        )


class AccessGuard:
    """With a token, every request must carry it, but for the page that describes the API.

    Without one, only this machine may ask.

    A browser on this machine runs pages of strangers: without a token, requests under a foreign
    host name (a name that was made to point here) or from a page of another origin are refused.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A connection that becomes a WebSocket begins as a request, and is refused as one.
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._refusal(Headers(scope=scope), scope["path"])
        if refused is None:
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
        await response(refused, headers)(scope, receive, send)

    def _refusal(self, headers: Headers, path: str) -> Problem | None:
        if self._token is not None:
            if is_public(path):
                return None
            kind, _, given = headers.get("authorization", "").partition(" ")
            # Compared in constant time: how long it takes must not tell how much of it is right.
            if kind.lower() == "bearer" and hmac.compare_digest(
                given.strip().encode(), self._token
            ):
                return None
            return problem(401, "unauthorized", "send the token: Authorization: Bearer TOKEN")
        host = headers.get("host", "")
        name = _host_name(f"//{host}")
        if not is_loopback(name) and name.lower() not in self._hosts:
            return problem(403, "host_refused", f"this service does not answer for '{name}'")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return problem(403, "origin_refused", "pages of other sites may not use this service")
        return None


class BodyLimit:
    """Answers 413 to a body that is too large, declared or not."""

    def __init__(self, app: ASGIApp, *, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdigit() and int(declared) > self._bytes_max:
            await _drain(receive)
            await response(problem(413, "too_large", self._detail()))(scope, receive, send)
            return
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._bytes_max:
                await _drain(receive)
                raise HTTPException(413, self._detail())
            return message

        await self._app(scope, limited, send)

    def _detail(self) -> str:
        return f"a request may have at most {self._bytes_max} bytes"


def _host_name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        # Not an address at all, such as an unclosed bracket.
        return ""


async def _drain(receive: Receive) -> None:
    drained = 0
    while drained < DRAIN_BYTES_MAX:
        message = await receive()
        drained += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
