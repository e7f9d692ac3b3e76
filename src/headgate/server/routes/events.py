"""Live events as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query

# FastAPI writes the stream and its pings: no other library of server-sent events is needed.
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from headgate.core.ids import JobId
from headgate.server.event_log import EventLog, Subscription
from headgate.server.problems import problems
from headgate.server.routes.common import JobPath, ServiceDep

router = APIRouter(prefix="/api/v1", tags=["events"])

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


async def subscribe_to_all(
    service: ServiceDep, last_event_id: LastEventId = None, replay: Replay = False
) -> AsyncIterator[Subscription]:
    """Listen to all jobs until the response has ended, even if nothing of it was ever sent."""
    with service.events.subscribed(job=None, last_id=_after(last_event_id, replay)) as found:
        yield found


async def subscribe_to_job(
    job: JobPath, service: ServiceDep, last_event_id: LastEventId = None, replay: Replay = False
) -> AsyncIterator[Subscription]:
    """Listen to one job until the response has ended."""
    await run_in_threadpool(service.controller.job_status, JobId(job))
    # Events are told where the job is driven: anywhere else it would seem that nothing happens.
    await run_in_threadpool(service.controller.membership.need_driver, JobId(job))
    last_id = _after(last_event_id, replay)
    with service.events.subscribed(job=JobId(job), last_id=last_id) as found:
        yield found


def _after(last_id: str | None, replay: bool) -> str | None:
    # An id of no life of the service means: everything that is kept.
    return last_id or ("-0" if replay else None)


@router.get("/events", response_class=EventSourceResponse, responses={**_STREAM, **problems(503)})
async def stream_events(
    service: ServiceDep, subscription: Annotated[Subscription, Depends(subscribe_to_all)]
) -> AsyncIterator[ServerSentEvent]:
    """Send what happens to all jobs, as it happens."""
    async for event in _stream(service.events, subscription):
        yield event


@router.get(
    "/jobs/{job}/events",
    response_class=EventSourceResponse,
    responses={**_STREAM, **problems(404, 421, 503)},
)
async def stream_job_events(
    service: ServiceDep, subscription: Annotated[Subscription, Depends(subscribe_to_job)]
) -> AsyncIterator[ServerSentEvent]:
    """Send what happens to one job, as it happens."""
    async for event in _stream(service.events, subscription):
        yield event


async def _stream(events: EventLog, subscription: Subscription) -> AsyncIterator[ServerSentEvent]:
    yield ServerSentEvent(retry=RETRY_MS)
    while True:
        subscription.wake.clear()
        for event in subscription.take():
            yield ServerSentEvent(event=event.kind, id=events.id_of(event), data=event.data)
        if subscription.closed:
            return
        if subscription.overflowed:
            # It reads too slowly. When it comes back, it names the last event it saw.
            yield ServerSentEvent(event="Overflow", data={})
            return
        await subscription.wake.wait()
