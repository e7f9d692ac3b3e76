"""Live events as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from headgate.core.ids import JobId
from headgate.server.event_log import EventLog, LiveEvent, Subscription
from headgate.server.problems import problems
from headgate.server.routes.common import JobPath, ServiceDep
from headgate.server.service import Service

router = APIRouter(prefix="/api/v1", tags=["events"])

KEEP_ALIVE_SECONDS = 15.0
RETRY_MS = 1_000
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events, until the client or the service ends it.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

LastEventId = Annotated[
    str | None,
    Header(description="The last event seen: what came since is sent first.", max_length=100),
]
Replay = Annotated[
    bool, Query(description="Without a last event: begin with everything that is kept.")
]


@router.get("/events", response_class=StreamingResponse, responses={**_STREAM, **problems(503)})
async def stream_events(
    service: ServiceDep, last_event_id: LastEventId = None, replay: Replay = False
) -> StreamingResponse:
    """Send what happens to all jobs, as it happens."""
    return _response(service, None, last_event_id, replay)


@router.get(
    "/jobs/{job}/events",
    response_class=StreamingResponse,
    responses={**_STREAM, **problems(404, 503)},
)
async def stream_job_events(
    job: JobPath, service: ServiceDep, last_event_id: LastEventId = None, replay: Replay = False
) -> StreamingResponse:
    """Send what happens to one job, as it happens."""
    await run_in_threadpool(service.controller.job_status, JobId(job))
    return _response(service, JobId(job), last_event_id, replay)


def _response(
    service: Service, job: JobId | None, last_id: str | None, replay: bool
) -> StreamingResponse:
    events = service.events
    # An id of no life of the service means: everything that is kept.
    after = last_id or ("-0" if replay else None)
    return EventStream(events, events.subscribe(job=job, last_id=after))


class EventStream(StreamingResponse):
    """Ends the subscription with the response, even if nothing of it was ever sent."""

    def __init__(self, events: EventLog, subscription: Subscription) -> None:
        super().__init__(
            _stream(events, subscription),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._events = events
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._events.unsubscribe(self._subscription)


async def _stream(events: EventLog, subscription: Subscription) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    while True:
        subscription.wake.clear()
        for event in subscription.take():
            yield _text(event, events.id_of(event))
        if subscription.closed:
            return
        if subscription.overflowed:
            # It reads too slowly. When it comes back, it names the last event it saw.
            yield "event: Overflow\ndata: {}\n\n"
            return
        try:
            await asyncio.wait_for(subscription.wake.wait(), KEEP_ALIVE_SECONDS)
        except TimeoutError:
            yield ": still here\n\n"


def _text(event: LiveEvent, event_id: str | None) -> str:
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {event.kind}\ndata: {json.dumps(event.data)}\n\n"
