"""From the URL of a service to a connection, and what its refusals mean."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from headgate.controller.nodes.messages import Answer, Hello, Refusal, Welcome
from headgate.controller.nodes.session import PIECE_BYTES
from headgate.core.errors import ExternalError, UserError
from headgate.core.model import from_json, to_json
from headgate.core.tls import not_trusted, trusting

PATH = "/api/v1/nodes/link"
OPEN_SECONDS = 10.0
CLOSE_SECONDS = 1.0
FRAME_BYTES_MAX = PIECE_BYTES + 1024


class NotWanted(Exception):
    """The service has refused this node. `passing`: it may be otherwise in a while."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.passing = passing


def check_url(url: str) -> str:
    """Return the address of the link. Raises `UserError` for what is no URL of a service."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(
            f"'{url}' is not the URL of a service: write http://host:port or https://host:port",
            code="url",
        )
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{PATH}"


class WireOutlet:
    """Frames of one connection, written by a thread of their own: a full line blocks nobody."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._frames: queue.SimpleQueue[bytes | str | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="node-write", daemon=True).start()

    def put(self, frame: bytes | str) -> None:
        self._frames.put(frame)

    def close(self) -> None:
        """End the connection at once, also for whoever reads or writes."""
        self._frames.put(None)
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)

    def _write(self) -> None:
        while (frame := self._frames.get()) is not None:
            try:
                self._connection.send(frame)
            except (ConnectionClosed, OSError):
                # The reader notices the same loss.
                return


@contextmanager
def dial(url: str, token: str | None, ca: str | None) -> Iterator[ClientConnection]:
    """Open a connection to a service.

    Raises `UserError` if its certificate cannot be trusted, `NotWanted` if it refuses,
    `ExternalError` if it does not answer.
    """
    address = check_url(url)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with contextlib.ExitStack() as open_until_end:
        try:
            connection = open_until_end.enter_context(
                connect(
                    address,
                    ssl=trusting(ca) if address.startswith("wss:") else None,
                    additional_headers=headers,
                    compression=None,
                    proxy=None,
                    open_timeout=OPEN_SECONDS,
                    close_timeout=CLOSE_SECONDS,
                    # The link has pings of its own, which count for both sides.
                    ping_interval=None,
                    max_size=FRAME_BYTES_MAX,
                )
            )
        except ssl.SSLCertVerificationError as error:
            raise not_trusted(url, error) from error
        except InvalidStatus as error:
            raise _refusal(url, error.response.status_code) from error
        except (OSError, WebSocketException, EOFError) as error:
            raise ExternalError(f"{url} does not answer: {error}", code="no_service") from error
        yield connection


def greet(connection: ClientConnection, hello: Hello) -> Welcome:
    """Say who we are. Raises `NotWanted` if the service refuses, `OSError` if it is silent."""
    try:
        connection.send(to_json(hello).decode())
        said = connection.recv(timeout=OPEN_SECONDS)
    except (ConnectionClosed, TimeoutError) as error:
        raise ExternalError(f"the service did not answer: {error}", code="no_service") from error
    answer: Welcome | Refusal = from_json(Answer, said)
    if isinstance(answer, Refusal):
        raise NotWanted(answer.message, passing=answer.passing)
    return answer


def _refusal(url: str, status: int) -> NotWanted:
    if status == 401:
        return NotWanted(f"{url} wants its token: give it with --token or HEADGATE_TOKEN")
    if status in (403, 404):
        return NotWanted(
            f"{url} refused this node with status {status}: is it a Headgate service of this"
            " version, and is it called by its own name?"
        )
    return NotWanted(f"{url} refused this node with status {status}", passing=True)
