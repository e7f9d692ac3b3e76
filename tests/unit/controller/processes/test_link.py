"""The link: who may register, whose messages are taken, and that nobody can block it."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator

import pytest

from headgate.controller.processes.link import WorkerLink
from headgate.controller.rules.events import Event, WorkerDisconnected
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation, JobId, WorkerId
from headgate.core.messages import (
    ControllerMessage,
    Heartbeat,
    Progress,
    Register,
    Stop,
    WorkerMessage,
)
from headgate.core.model import from_json, to_json

JOB = JobId("orders")
TWO = Generation(2)
PATIENCE_SECONDS = 10.0


class Hub:
    """A link and what it delivered."""

    def __init__(self) -> None:
        self.events: queue.Queue[tuple[JobId, Event]] = queue.Queue()
        self.link = WorkerLink(lambda job, event: self.events.put((job, event)))

    def next(self) -> Event:
        return self.events.get(timeout=PATIENCE_SECONDS)[1]


class Client:
    """A worker's end of the wire."""

    def __init__(self, hub: Hub) -> None:
        host, _, port = hub.link.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self.lines = self.socket.makefile("rb")

    def send(self, message: WorkerMessage) -> None:
        self.socket.sendall(to_json(message) + b"\n")

    def receive(self) -> ControllerMessage:
        message: ControllerMessage = from_json(ControllerMessage, self.lines.readline())
        return message

    def is_closed(self) -> bool:
        """Whether the other end has hung up."""
        return self.lines.readline() == b""

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.link.close()


def register(generation: int = 2, token: str = "secret", job: str = JOB) -> Register:
    return Register(
        job=JobId(job),
        generation=Generation(generation),
        worker=WorkerId("w"),
        token=token,
        pid=1,
        host="h",
    )


def beat(generation: int = 2) -> Heartbeat:
    return Heartbeat(generation=Generation(generation), progress=Progress())


def registered(hub: Hub) -> Client:
    hub.link.expect(JOB, TWO, "secret")
    client = Client(hub)
    client.send(register())
    assert isinstance(hub.next(), Register)
    return client


def test_expected_worker_registers_and_talks_both_ways(hub: Hub) -> None:
    client = registered(hub)
    client.send(beat())
    assert hub.next() == beat()
    hub.link.send(JOB, TWO, Stop(generation=TWO))
    assert client.receive() == Stop(generation=TWO)
    client.close()


@pytest.mark.parametrize(
    "wrong",
    [register(token="guess"), register(generation=1), register(job="other"), beat()],
)
def test_stranger_is_refused_and_nothing_of_it_is_delivered(hub: Hub, wrong: WorkerMessage) -> None:
    hub.link.expect(JOB, TWO, "secret")
    client = Client(hub)
    client.send(wrong)
    assert client.is_closed()
    assert hub.events.empty()
    client.close()


@pytest.mark.parametrize("garbage", [b"\n", b"{}\n", b"not json\n", b'{"kind":"register"}\n'])
def test_garbage_is_refused(hub: Hub, garbage: bytes) -> None:
    client = Client(hub)
    client.socket.sendall(garbage)
    assert client.is_closed()
    assert hub.events.empty()
    client.close()


def test_message_of_another_generation_is_refused_on_a_good_connection(hub: Hub) -> None:
    client = registered(hub)
    client.send(beat(generation=3))
    client.send(register())
    client.socket.sendall(b"garbage\n")
    client.send(beat())
    assert hub.next() == beat()
    assert hub.events.empty()
    client.close()


def test_lost_connection_is_an_event(hub: Hub) -> None:
    registered(hub).close()
    assert hub.next() == WorkerDisconnected(generation=TWO)


def test_worker_may_come_back_and_replaces_its_old_connection(hub: Hub) -> None:
    first = registered(hub)
    second = Client(hub)
    second.send(register())
    assert isinstance(hub.next(), Register)
    assert first.is_closed()
    hub.link.send(JOB, TWO, Stop(generation=TWO))
    assert second.receive() == Stop(generation=TWO)
    # The end of the replaced connection is not the end of the worker's.
    second.send(beat())
    assert hub.next() == beat()
    first.close()
    second.close()


def test_refused_generation_is_cut_off_with_all_older_ones(hub: Hub) -> None:
    client = registered(hub)
    hub.link.refuse(JOB, Generation(5))
    assert client.is_closed()
    again = Client(hub)
    again.send(register())
    assert again.is_closed()
    client.close()
    again.close()


def test_refusing_an_old_generation_leaves_the_new_one_alone(hub: Hub) -> None:
    client = registered(hub)
    hub.link.refuse(JOB, Generation(1))
    client.send(beat())
    assert hub.next() == beat()
    client.close()


def test_message_to_nobody_is_lost_quietly(hub: Hub) -> None:
    hub.link.send(JOB, Generation(9), Stop(generation=Generation(9)))
    assert hub.events.empty()


def test_worker_that_does_not_read_blocks_nobody(hub: Hub) -> None:
    deaf = registered(hub)
    hub.link.expect(JOB, Generation(3), "other")
    good = Client(hub)
    good.send(register(generation=3, token="other"))
    assert isinstance(hub.next(), Register)
    padding = PipelineGraph(operators=(), udf_source="x" * 1_000_000).udf_source
    assert padding is not None
    for _ in range(50):
        # Fifty megabytes that nobody reads: far more than the kernel buffers.
        hub.link._connections[JOB, TWO].send(padding.encode())
    hub.link.send(JOB, Generation(3), Stop(generation=Generation(3)))
    assert good.receive() == Stop(generation=Generation(3))
    deaf.close()
    good.close()
