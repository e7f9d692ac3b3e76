"""The kept events: numbered, bounded, replayed after the last one seen."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headgate.core.errors import ExternalError
from headgate.core.ids import JobId
from headgate.server import event_log
from headgate.server.event_log import EventLog, Subscription

A, B = JobId("a"), JobId("b")


def new_log(kept: int = 100, streams_max: int = 10) -> EventLog:
    return EventLog(kept=kept, streams_max=streams_max, life="life")


def publish(log: EventLog, job: JobId, n: int, *, keep: bool = True) -> None:
    log.publish("Happened", job, n, {"n": n}, keep=keep)


def numbers(subscription: Subscription) -> list[object]:
    return [event.data["n"] for event in subscription.take()]


async def subscribed(
    log: EventLog, job: JobId | None = None, last_id: str | None = None
) -> Subscription:
    return log.subscribe(job=job, last_id=last_id)


def test_stream_begins_now_unless_a_last_event_is_named() -> None:
    log = new_log()
    for n in (1, 2, 3):
        publish(log, A, n)
    assert numbers(asyncio.run(subscribed(log))) == []
    assert numbers(asyncio.run(subscribed(log, last_id="life-1"))) == [2, 3]
    assert numbers(asyncio.run(subscribed(log, last_id="life-3"))) == []


@pytest.mark.parametrize("last_id", ["other-2", "nonsense", "-0", "life-x", ""])
def test_unknown_last_event_gets_everything_that_is_kept(last_id: str) -> None:
    log = new_log(kept=2)
    for n in (1, 2, 3):
        publish(log, A, n)
    assert numbers(asyncio.run(subscribed(log, last_id=last_id))) == [2, 3]


def test_stream_of_a_job_has_only_its_events() -> None:
    async def story() -> list[object]:
        log = new_log()
        publish(log, B, 1)
        publish(log, A, 2)
        subscription = log.subscribe(job=A, last_id="-0")
        publish(log, A, 3)
        publish(log, B, 4)
        return numbers(subscription)

    assert asyncio.run(story()) == [2, 3]


def test_gauges_are_heard_live_and_not_kept() -> None:
    async def story() -> tuple[list[object], list[object]]:
        log = new_log()
        live = log.subscribe(job=None, last_id=None)
        publish(log, A, 1)
        publish(log, A, 2, keep=False)
        late = log.subscribe(job=None, last_id="-0")
        return numbers(live), numbers(late)

    assert asyncio.run(story()) == ([1, 2], [1])


def test_event_of_another_thread_wakes_the_stream() -> None:
    async def story() -> list[object]:
        log = new_log()
        subscription = log.subscribe(job=None, last_id=None)
        threading.Thread(target=publish, args=(log, A, 1)).start()
        await asyncio.wait_for(subscription.wake.wait(), 60)
        return numbers(subscription)

    assert asyncio.run(story()) == [1]


def test_slow_reader_is_let_go_and_loses_nothing_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "QUEUE_MAX", 3)

    async def story() -> tuple[bool, list[object], list[object]]:
        log = new_log()
        slow = log.subscribe(job=None, last_id=None)
        for n in range(1, 6):
            publish(log, A, n)
        events = slow.take()
        last_id = log.id_of(events[-1])
        again = log.subscribe(job=None, last_id=last_id)
        return slow.overflowed, [e.data["n"] for e in events], numbers(again)

    assert asyncio.run(story()) == (True, [1, 2, 3], [4, 5])


def test_streams_are_limited_and_their_places_are_given_back() -> None:
    async def story() -> None:
        log = new_log(streams_max=1)
        first = log.subscribe(job=None, last_id=None)
        with pytest.raises(ExternalError, match="1 event streams"):
            log.subscribe(job=None, last_id=None)
        log.unsubscribe(first)
        log.unsubscribe(first)
        log.subscribe(job=None, last_id=None)
        assert log.streams == 1

    asyncio.run(story())


def test_closing_ends_every_stream() -> None:
    async def story() -> None:
        log = new_log()
        early = log.subscribe(job=None, last_id=None)
        log.close()
        await asyncio.wait_for(early.wake.wait(), 60)
        assert early.closed
        assert log.subscribe(job=None, last_id=None).closed

    asyncio.run(story())


def test_reader_whose_loop_has_ended_does_not_disturb_the_others() -> None:
    log = new_log()
    dead = asyncio.run(subscribed(log))

    async def story() -> list[object]:
        alive = log.subscribe(job=None, last_id=None)
        publish(log, A, 1)
        return numbers(alive)

    assert asyncio.run(story()) == [1]
    assert dead.closed
