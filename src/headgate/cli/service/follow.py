"""`headgate logs` and `headgate events`: what a job says, and what happens to it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headgate.cli.render import print_json, standard_console
from headgate.cli.service.client import AsJson, ServiceClient, StreamedEvent, Token, Url, connect
from headgate.cli.service.jobs import Job
from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.core.errors import ExternalError
from headgate.core.model import from_python
from headgate.embedded.display import RunDisplay

FOLLOW_SECONDS = 0.5
RECONNECT_SECONDS = 1.0
RECONNECTS_MAX = 60
_ANNOUNCEMENTS: dict[str, type[Announcement]] = {
    "StateChanged": StateChanged,
    "Noted": Noted,
    "ProgressMade": ProgressMade,
}
_OF_NODES = ("NodeJoined", "NodeReturned", "NodeLost", "NodeLeft")


def logs(
    job: Job,
    generation: Annotated[
        int | None, typer.Option(min=1, help="Which worker's; default: the newest.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show the end of a worker's log."""
    client = connect(url, token)
    page = client.get(f"/jobs/{job}/logs", generation=generation)
    if as_json and not follow:
        print_json(page)
        return
    _print_page(page, as_json)
    while follow:
        try:
            time.sleep(FOLLOW_SECONDS if page["next_offset"] >= page["size"] else 0)
            page = _next_page(client, job, generation, page)
        except KeyboardInterrupt:
            return
        _print_page(page, as_json)


def _next_page(
    client: ServiceClient, job: str, generation: int | None, page: dict[str, Any]
) -> dict[str, Any]:
    """Return what came since, from the next worker's log if this one is at its end."""
    following = page["generation"]
    if generation is None and page["next_offset"] >= page["size"]:
        newer = [g for g in page["generations"] if g > following]
        if newer:
            found: dict[str, Any] = client.get(f"/jobs/{job}/logs", generation=newer[0], offset=0)
            return found
    later: dict[str, Any] = client.get(
        f"/jobs/{job}/logs", generation=following, offset=page["next_offset"]
    )
    return later


def _print_page(page: dict[str, Any], as_json: bool) -> None:
    if as_json:
        if page["text"]:
            print(json.dumps(page), flush=True)
        return
    sys.stdout.write(page["text"])
    sys.stdout.flush()


def events(
    job: Annotated[
        str | None, typer.Argument(help="Only what happens to this job; default: to all.")
    ] = None,
    replay: Annotated[
        bool, typer.Option(help="Begin with the events that the service still has.")
    ] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show what happens, as it happens, until Ctrl-C."""
    client = connect(url, token)
    console = standard_console()
    display = RunDisplay(console, as_json=as_json)
    path = "/events" if job is None else f"/jobs/{job}/events"
    try:
        for event in _events(client, path, replay):
            if as_json:
                print(json.dumps(event.data), flush=True)
            elif event.data.get("event") in _ANNOUNCEMENTS:
                _show(display, event, named=job is None)
            elif event.kind in _OF_NODES:
                console.print(f"node {event.data['node']}  {event.kind}: {event.data['reason']}")
            elif event.kind in ("AlarmRaised", "AlarmCleared"):
                word = "ALARM" if event.kind == "AlarmRaised" else "alarm is over"
                console.print(f"{event.data['job']}  {word}: {event.data['message']}", markup=False)
    except KeyboardInterrupt:
        return


def _show(display: RunDisplay, event: StreamedEvent, *, named: bool) -> None:
    body = {k: v for k, v in event.data.items() if k not in ("event", "note_kind")}
    announcement: Announcement = from_python(_ANNOUNCEMENTS[event.data["event"]], body)
    if isinstance(announcement, ProgressMade):
        return
    if named:
        display.console.print(f"{announcement.job}  ", end="", markup=False)
    display.show(announcement)


def _events(client: ServiceClient, path: str, replay: bool) -> Iterator[StreamedEvent]:
    """Return events over as many connections as it takes; none is missed while it is kept."""
    last_id: str | None = None
    failures = 0
    while True:
        try:
            for event in client.events(path, last_id, replay=replay and last_id is None):
                last_id, failures = event.id or last_id, 0
                yield event
        except ExternalError:
            failures += 1
            # A service that never answered is not one that is being restarted.
            if last_id is None or failures > RECONNECTS_MAX:
                raise
        time.sleep(RECONNECT_SECONDS)
