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
    typer.Option(
        "--url",
        help="The service, or several with commas between them; default: HEADGATE_URL, or the one"
        " on this machine.",
    ),
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


class _Misdirected(Exception):
    """Another service drives the job: it is the one to ask."""

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(detail)
        self.url = url


class ServiceClient:
    """Raises `UserError` if the service refuses, `ExternalError` if it does not answer.

    Of several services (with commas between them) the first that answers is asked. One that does
    not drive the job in question says which one does, and that one is asked instead.
    """

    def __init__(self, urls: str, token: str | None, ca: str | None = None) -> None:
        self._urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()] or [""]
        self.url = self._urls[0]
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = _httpx().Client(
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

        def listen(url: str) -> Iterator[StreamedEvent]:
            with (
                self._answering(url),
                self._http.stream(
                    "GET",
                    f"{url}/api/v1{path}",
                    headers={} if last_id is None else {"Last-Event-ID": last_id},
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

        try:
            yield from listen(self.url)
        except _Misdirected as elsewhere:
            try:
                yield from listen(_say_where(elsewhere))
            except _Misdirected as again:
                raise _changing_hands(again) from again
        except ExternalError:
            # The next connection begins with a service that answers.
            self._find_another()
            raise

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
        try:
            return self._ask_any(method, path, **arguments)
        except _Misdirected as elsewhere:
            url = _say_where(elsewhere)
        try:
            return self._ask_one(url, method, path, **arguments)
        except _Misdirected as again:
            raise _changing_hands(again) from again

    def _ask_any(self, method: str, path: str, **arguments: Any) -> Any:
        """Ask the service; if nobody is there, the next one, which has not heard it yet."""
        for _ in self._urls[1:]:
            try:
                return self._ask_one(self.url, method, path, **arguments)
            except ExternalError as error:
                if error.code != "no_service":
                    raise
                self._find_another()
        return self._ask_one(self.url, method, path, **arguments)

    def _ask_one(self, url: str, method: str, path: str, **arguments: Any) -> Any:
        with self._answering(url):
            answer = self._http.request(method, f"{url}/api/v1{path}", **arguments)
        if answer.status_code >= 400:
            _raise_problem(answer)
        return answer.json() if answer.content else None

    def _find_another(self) -> None:
        self.url = self._urls[(self._urls.index(self.url) + 1) % len(self._urls)]

    @contextmanager
    def _answering(self, url: str) -> Iterator[None]:
        http = _httpx()
        try:
            yield
        except (http.ConnectError, http.ConnectTimeout) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise not_trusted(url, error) from error
            raise ExternalError(
                f"no service answers at {url}: start one with `headgate serve`, or name"
                " another one with --url",
                code="no_service",
            ) from error
        except (http.UnsupportedProtocol, http.InvalidURL) as error:
            raise UserError(
                f"'{url}' is not the URL of a service: write http://host:port", code="url"
            ) from error
        except http.HTTPError as error:
            raise ExternalError(
                f"the service at {url} does not answer: {type(error).__name__} {error}",
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
    if answer.status_code == 421 and problem.get("controller"):
        raise _Misdirected(str(problem["controller"]).rstrip("/"), detail)
    if answer.status_code >= 500:
        raise ExternalError(detail, code=code)
    raise UserError(detail, code=code)


def _say_where(elsewhere: _Misdirected) -> str:
    typer.echo(f"{elsewhere}: asking there", err=True)
    return elsewhere.url


def _changing_hands(again: _Misdirected) -> ExternalError:
    # Once is enough: two that each name the other would never come to an end.
    return ExternalError(f"{again}. It has just changed hands: try again", code="job_leased")


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
