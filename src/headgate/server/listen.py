"""Runs the application on a socket until a signal ends it."""

from __future__ import annotations

import errno
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.concurrency import run_in_threadpool

from headgate.components import configured_controller
from headgate.config import Config, ServerConfig, scheme_of
from headgate.core.errors import ExternalError, UserError
from headgate.server.app import create_app
from headgate.server.guards import check_listening
from headgate.server.service import Service

SHUTDOWN_SECONDS = 10


def serve(config: Config, *, ready: Callable[[str], None] = lambda url: None) -> None:
    """Listen and drive jobs until SIGTERM or SIGINT. `ready` is told the URL when it answers."""
    check_listening(config.server.host, config.server.token)
    check_tls(config.server)
    # Bound before anything is started: a service that nobody can reach must not take jobs up.
    listening = bind(config.server.host, config.server.port)
    scheme = scheme_of(config)
    service = build_service(config, advertised_url(config.server, listening, scheme))
    server = HeadgateServer(service, lambda: ready(url_of(listening, scheme)))
    with _quiet_end():
        server.run(sockets=[listening])


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Let a signal end the service in good order.

    The server raises the signals it caught once more when it is done, for whoever was there before
    it: without this the process would still die of them.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, frame: None) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_service(config: Config, advertise_url: str = "") -> Service:
    """Return the service as the settings say; nothing is started."""
    controller = configured_controller(config, advertise_url=advertise_url, with_nodes=True)
    return Service(controller, config)


class HeadgateServer(uvicorn.Server):
    """Ends the event streams before it waits for connections to end: they would never."""

    def __init__(self, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(service),
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                ssl_certfile=service.config.server.tls_certificate,
                ssl_keyfile=service.config.server.tls_key,
                # The links of nodes have pings of their own, and compress what they send.
                ws_ping_interval=None,
                ws_per_message_deflate=False,
            )
        )
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.events.close()
        # While they can still be reached, nodes are told to end the workers.
        await run_in_threadpool(self._service.controller.nodes.close)
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound, and not yet listening."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise ExternalError(
            f"cannot listen on {host}:{port}: {error.strerror or error}. {_remedy(error)}",
            code="listen",
        ) from error
    return listening


def _remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "Another service runs there: choose another port with --port (0 = any free one)."
    if error.errno == errno.EACCES:
        return "Ports below 1024 are for root: choose a higher one with --port."
    return "Name an address of this machine with --host; 127.0.0.1 is the default."


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    """Return the address as a client writes it."""
    host, port = listening.getsockname()[:2]
    return _url(scheme, host, port)


def advertised_url(config: ServerConfig, listening: socket.socket, scheme: str = "http") -> str:
    """Return where other services send those who ask for a job of this one."""
    if config.advertise_url is not None:
        return config.advertise_url
    host, port = listening.getsockname()[:2]
    # Everywhere is no place to send anybody to.
    everywhere = ipaddress.ip_address(host).is_unspecified
    return _url(scheme, socket.getfqdn() if everywhere else host, port)


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def check_tls(server: ServerConfig) -> None:
    """Refuse a certificate or key that cannot be used. Raises `UserError`."""
    if server.tls_certificate is None:
        if server.tls_key is not None:
            raise UserError(
                "server.tls_key is of no use without server.tls_certificate", code="tls"
            )
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server.tls_certificate, server.tls_key)
    except OSError as error:
        raise UserError(
            f"cannot use the certificate '{server.tls_certificate}'"
            f" (key: '{server.tls_key or server.tls_certificate}'): {error}. Both are PEM files;"
            " the setting server.tls_key may be left out where one file holds both",
            code="tls",
        ) from error
