"""How commands talk to a service: its address, its answers, its errors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headgate.config import Config, load_config, scheme_of
from headgate.core.errors import ExternalError, UserError
from headgate.core.tls import not_trusted, trusting

if TYPE_CHECKING:
    import httpx

Url = Annotated[
    str | None,
    typer.Option("--url", help="The service; default: HEADGATE_URL, or the one on this machine."),
]
Token = Annotated[
    str | None, typer.Option("--token", help="The service's token; better in HEADGATE_TOKEN.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[bool, typer.Option(help="Wait until it has happened.")]

TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.3
EXIT_REFUSED = 2
# Addresses that a service listens on, and nobody can connect to.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class StreamedEvent:
    """One server-sent event; `id` is the last one so far that can be named to go on after it."""

    id: str | None
    kind: str
    data: dict[str, Any]


class ServiceClient:
    """Raises `UserError` if the service refuses, `ExternalError` if it does not answer."""

    def __init__(self, url: str, token: str | None, ca: str | None = None) -> None:
        self.url = url.rstrip("/")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = _httpx().Client(
            base_url=self.url,
            headers=headers,
            timeout=TIMEOUT_SECONDS,
            verify=True if ca is None else trusting(ca),
        )

    def get(self, path: str, **params: Any) -> Any:
        given = {name: value for name, value in params.items() if value is not None}
        return self._ask("GET", path, params=given)

    def post(self, path: str, body: dict[str, Any] | None = None, **params: Any) -> Any:
        return self._ask("POST", path, json=None if body is None else _given(body), params=params)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("PUT", path, json=_given(body))

    def delete(self, path: str) -> None:
        self._ask("DELETE", path)

    def events(self, path: str, last_id: str | None, *, replay: bool) -> Iterator[StreamedEvent]:
        """Return the events of one connection, until it ends."""
        from httpx_sse import EventSource

        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        with (
            self._answering(),
            self._http.stream(
                "GET",
                f"/api/v1{path}",
                headers=headers,
                params={"replay": "true"} if replay else {},
                timeout=_httpx().Timeout(TIMEOUT_SECONDS, read=60.0),
            ) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
                _raise_problem(answer)
            for event in EventSource(answer).iter_sse():
                # What has no data is for browsers: how soon to come back.
                if event.data:
                    yield StreamedEvent(event.id or None, event.event, event.json())

    def wait_for_job(
        self, job: str, condition: Callable[[dict[str, Any]], bool], timeout_seconds: float
    ) -> dict[str, Any]:
        """Return the first state of the job that meets the condition."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            view: dict[str, Any] = self.get(f"/jobs/{job}")
            if condition(view):
                return view
            if time.monotonic() > deadline:
                doing = f" ({view['doing']})" if view["doing"] else ""
                raise ExternalError(
                    f"job {job} is {view['state']}{doing} after {timeout_seconds:.0f} s",
                    code="timeout",
                )
            time.sleep(POLL_SECONDS)

    def _ask(self, method: str, path: str, **arguments: Any) -> Any:
        with self._answering():
            answer = self._http.request(method, f"/api/v1{path}", **arguments)
        if answer.status_code >= 400:
            _raise_problem(answer)
        return answer.json() if answer.content else None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        http = _httpx()
        try:
            yield
        except http.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise not_trusted(self.url, error) from error
            raise ExternalError(
                f"no service answers at {self.url}: start one with `headgate serve`, or name"
                " another one with --url",
                code="no_service",
            ) from error
        except (http.UnsupportedProtocol, http.InvalidURL) as error:
            raise UserError(
                f"'{self.url}' is not the URL of a service: write http://host:port", code="url"
            ) from error
        except http.HTTPError as error:
            raise ExternalError(
                f"the service at {self.url} does not answer: {type(error).__name__} {error}",
                code="no_answer",
            ) from error


def connect(url: str | None, token: str | None) -> ServiceClient:
    """Return a client for the service that flags, environment and settings name."""
    config = load_config(
        environment=os.environ, flags={"client.url": url, "server.token": token}
    ).config
    return ServiceClient(service_url(config), config.server.token, config.client.ca)


def service_url(config: Config) -> str:
    """Return the address of the service: as named, or as `headgate serve` would listen here."""
    if config.client.url is not None:
        return config.client.url
    host = _ANYWHERE.get(config.server.host, config.server.host)
    named = f"[{host}]" if ":" in host else host
    return f"{scheme_of(config)}://{named}:{config.server.port}"


def _raise_problem(answer: httpx.Response) -> None:
    try:
        problem = answer.json()
        detail, code = str(problem["detail"]), str(problem["code"])
    except (ValueError, KeyError, TypeError):
        raise ExternalError(
            f"{answer.request.url} answered {answer.status_code}: is this a Headgate service?",
            code="no_answer",
        ) from None
    if problem.get("rendered"):
        # Refused SQL is shown with its place, as `headgate run` does.
        console = Console(stderr=True)
        console.print(problem["rendered"], markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_REFUSED)
    if answer.status_code == 401:
        detail = "the service wants its token: give it with --token or HEADGATE_TOKEN"
    if answer.status_code >= 500:
        raise ExternalError(detail, code=code)
    raise UserError(detail, code=code)


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise UserError(
            "this command needs the service's libraries: install headgate[server]",
            code="not_installed",
        ) from error
    return httpx
