"""The link of a node over a real socket: what it refuses, what it carries, how it goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headgate
from headgate.controller.nodes.channel import Channel
from headgate.controller.nodes.messages import Hello, StartOrder, Tell, ToNode, Welcome, decode
from headgate.core.checkpoint import LoadingPlan
from headgate.core.ids import Generation, JobId, OperatorId
from headgate.core.messages import RunSettings, SpareSettings, Start
from headgate.node.dialing import NotWanted, WireOutlet, dial, greet
from tests.support.waiting import eventually
from tests.unit.controller.support import GRAPH
from tests.unit.server.serving import Running

JOB, ONE = JobId("elsewhere"), Generation(1)
PATIENCE_SECONDS = 60


def hello(name: str, **changes: Any) -> Hello:
    said = {"instance": f"process of {name}", "host": "h", "slots": 4, **changes}
    return Hello(**{"version": headgate.__version__, "node": name, **said})


class FarEnd:
    """A node that has joined: it takes what it is sent."""

    def __init__(self, name: str, running: Running) -> None:
        self.name = name
        self.running = running
        self.channel = Channel()
        self.session: str | None = None

    @contextmanager
    def connected(self) -> Iterator[Any]:
        with dial(self.running.url, None, None) as connection:
            said = hello(self.name, session=self.session, received=self.channel.received)
            welcome: Welcome = greet(connection, said)
            outlet = WireOutlet(connection)
            assert welcome.resumed == (self.session is not None)
            self.session = welcome.session
            self.channel.attach(outlet, welcome.received)
            yield connection
            self.channel.detach(outlet)
            outlet.close()

    def next_order(self, connection: Any) -> Any:
        while True:
            data = self.channel.take(connection.recv(timeout=PATIENCE_SECONDS))
            if data is not None:
                return decode(ToNode, data)


def node_of(running: Running, name: str) -> dict[str, Any]:
    return next((node for node in running.get("/api/v1/nodes") if node["name"] == name), {})


def test_node_is_listed_and_its_joining_is_an_event(running: Running) -> None:
    far = FarEnd("listed", running)
    with far.connected():
        found = node_of(running, "listed")
        assert (found["state"], found["slots_free"], found["address"]) == (
            "connected",
            4,
            "127.0.0.1",
        )
    assert eventually(lambda: node_of(running, "listed")["state"] == "reconnecting")
    with running.client.stream("GET", "/api/v1/events", params={"replay": "true"}) as stream:
        said = (line for line in stream.iter_lines() if line.startswith("data:"))
        for line in said:
            event = json.loads(line.removeprefix("data:"))
            if event.get("node") == "listed":
                assert event["event"] == "NodeJoined"
                return


def test_plan_of_tens_of_megabytes_arrives_whole(running: Running) -> None:
    far = FarEnd("large", running)
    with far.connected() as connection:
        session = running.service.controller.nodes.sessions()["large"]
        # What does not compress is the worst that can happen.
        positions = {f"partition-{n}": os.urandom(500).hex() for n in range(30_000)}
        start = Start(
            job=JOB,
            generation=ONE,
            parallelism=2,
            graph=GRAPH,
            plan=LoadingPlan(job=JOB, parallelism=2, globals={OperatorId("source"): positions}),
            settings=RunSettings(state_url="s3://b", scratch_dir="/s"),
        )
        session.tell(JOB, ONE, start)
        order = far.next_order(connection)
        assert isinstance(order, Tell)
        assert order.message == start


def test_what_was_said_during_a_cut_arrives_after_it(running: Running) -> None:
    far = FarEnd("cut", running)
    with far.connected():
        session = running.service.controller.nodes.sessions()["cut"]
    assert eventually(lambda: not session.channel.is_connected)
    needs = SpareSettings(master="local", parallelism=2)
    for generation in (1, 2, 3):
        session.start(JOB, Generation(generation), "t", 1, needs)
    with far.connected() as connection:
        orders = [far.next_order(connection) for _ in range(3)]
    assert [order.generation for order in orders] == [1, 2, 3]
    assert all(isinstance(order, StartOrder) for order in orders)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"version": "0.0.1"}, "install the same version"),
        ({"version": headgate.__version__, "slots": "many"}, "not valid"),
        ({"name": "somebody"}, "not a node"),
    ],
)
def test_who_is_not_understood_is_told_why(
    running: Running, said: dict[str, object], why: str
) -> None:
    with dial(running.url, None, None) as connection:
        connection.send(json.dumps(said))
        answer = json.loads(connection.recv(timeout=PATIENCE_SECONDS))
    assert answer["kind"] == "refusal"
    assert why in answer["message"]


def test_second_node_of_a_name_is_refused(running: Running) -> None:
    with FarEnd("twin", running).connected(), dial(running.url, None, None) as connection:
        with pytest.raises(NotWanted, match="called twin") as refused:
            greet(connection, hello("twin", instance="another"))
        assert refused.value.passing


def test_page_of_another_origin_may_not_open_a_link(running: Running) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    address = running.url.replace("http:", "ws:") + "/api/v1/nodes/link"
    with pytest.raises(InvalidStatus) as refused, connect(address, origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403
