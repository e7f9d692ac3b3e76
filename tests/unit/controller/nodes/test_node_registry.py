"""Nodes as the controller knows them: joining, going on, silence, losses. Clocks of our own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.controller.clock import SteadyClock
from headgate.controller.nodes.channel import Channel
from headgate.controller.nodes.hosted import HostedWorkers
from headgate.controller.nodes.messages import (
    Beat,
    Goodbye,
    Hello,
    Killed,
    KillOrder,
    OrderRefused,
    StartOrder,
    ToNode,
    WorkerGone,
    WorkerSays,
    decode,
)
from headgate.controller.nodes.registry import NodeChange, NodeRefused, Nodes
from headgate.controller.rules.events import Event, WorkerExited
from headgate.core.errors import ExternalError
from headgate.core.ids import Generation, JobId, WorkerId
from headgate.core.messages import Register, SpareSettings, Stop, TaskFailed
from headgate.core.model import to_json
from tests.unit.controller.nodes.wire import Wire

JOB, ONE = JobId("orders"), Generation(1)
NEEDS = SpareSettings(master="local", parallelism=2)
TIMEOUT_MS = 15_000


class Bench:
    """A registry with a clock that stands still until it is moved."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.time = 0.0
        self.delivered: list[tuple[JobId, Event]] = []
        self.changes: list[NodeChange] = []
        self.nodes = Nodes(
            lambda job, event: self.delivered.append((job, event)),
            SteadyClock(),
            timeout_ms=TIMEOUT_MS,
            memory=folder / "nodes.json",
            now=lambda: self.time,
            **options,
        )
        self.nodes.subscribe(self.changes.append)

    def join(self, name: str = "a", **changes: Any) -> tuple[HostedWorkers, Wire]:
        wire = Wire()
        said = {"instance": f"process of {name}", "slots": 4, "host": "h", **changes}
        hello = Hello(**{"version": headgate.__version__, "node": name, **said})
        return self.nodes.join(hello, wire, "10.0.0.1"), wire

    def pass_time(self, seconds: float) -> None:
        self.time += seconds
        self.nodes.watch()

    def kinds(self) -> list[str]:
        return [change.kind for change in self.changes]


class FarEnd:
    """The node's side of a session."""

    def __init__(self, session: HostedWorkers, wire: Wire) -> None:
        self.session = session
        self.channel = Channel()
        self.wire = wire
        self.out = Wire()
        self.channel.attach(self.out, 0)

    def orders(self) -> list[Any]:
        found = []
        for frame in self.wire.frames[1:]:
            data = self.channel.take(frame)
            if data is not None:
                found.append(decode(ToNode, data))
        del self.wire.frames[1:]
        return found

    def say(self, message: object) -> None:
        self.channel.send(message)
        for frame in self.out.frames:
            self.session.take(frame)
        self.out.frames.clear()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def register() -> Register:
    return Register(job=JOB, generation=ONE, worker=WorkerId("w"), token="t", pid=1, host="there")


def test_worker_is_ordered_heard_and_known_to_be_on_its_node(bench: Bench) -> None:
    session, wire = bench.join()
    far = FarEnd(session, wire)
    for _ in range(2):
        session.start(JOB, ONE, "secret", 2, NEEDS)
    (order,) = far.orders()
    assert isinstance(order, StartOrder)
    assert (order.job, order.token, order.slots) == (JOB, "secret", 2)
    far.say(WorkerSays(job=JOB, message=register()))
    ((job, event),) = bench.delivered
    assert job == JOB
    assert isinstance(event, Register)
    assert event.node == "a"
    (view,) = bench.nodes.views()
    assert (view.state, view.slots_free, view.workers[0].job) == ("connected", 2, JOB)
    session.tell(JOB, ONE, Stop(generation=ONE))
    assert far.orders()[0].message == Stop(generation=ONE)
    far.say(WorkerGone(job=JOB, generation=ONE, exit_code=3, log_tail="last words"))
    assert bench.delivered[-1][1] == WorkerExited(
        generation=ONE, exit_code=3, log_tail="last words"
    )
    assert bench.nodes.views()[0].slots_free == 4


def test_worker_that_is_not_ours_is_not_listened_to(bench: Bench) -> None:
    far = FarEnd(*bench.join())
    far.say(WorkerSays(job=JOB, message=register()))
    far.say(WorkerGone(job=JOB, generation=ONE, exit_code=0, log_tail=""))
    assert bench.delivered == []


def test_refused_order_is_a_failure_that_says_why(bench: Bench) -> None:
    session, wire = bench.join()
    far = FarEnd(session, wire)
    session.start(JOB, ONE, "t", 2, NEEDS)
    far.say(OrderRefused(job=JOB, generation=ONE, reason="needs 2 slots, 1 of 4 are free"))
    ((_, event),) = bench.delivered
    assert isinstance(event, TaskFailed)
    assert event.error.code == "node_refused"
    assert event.error.message == "node a: needs 2 slots, 1 of 4 are free"


def test_silent_node_is_lost_with_its_workers(bench: Bench) -> None:
    session, wire = bench.join()
    session.start(JOB, ONE, "t", 2, NEEDS)
    bench.pass_time(14)
    assert bench.delivered == []
    bench.pass_time(2)
    ((_, event),) = bench.delivered
    assert isinstance(event, TaskFailed)
    assert event.error.message == "node a was lost (no word for 15 s)"
    assert event.error.code == "node_lost"
    assert bench.kinds() == ["NodeJoined", "NodeLost"]
    assert bench.nodes.views()[0].state == "lost"
    assert wire.closed
    # Nobody waits for a worker on it, and nothing can be started there.
    session.kill(JOB, ONE)
    with pytest.raises(ExternalError, match="was lost before"):
        session.start(JOB, Generation(2), "t", 2, NEEDS)


def test_kill_is_let_go_when_the_node_is_lost_meanwhile(bench: Bench) -> None:
    session, wire = bench.join()
    session.start(JOB, ONE, "t", 2, NEEDS)
    killing = threading.Thread(target=session.kill, args=(JOB, ONE))
    killing.start()
    far = FarEnd(session, wire)
    while not any(isinstance(order, KillOrder) for order in far.orders()):
        pass
    session.end("node a was lost")
    killing.join(10)
    assert not killing.is_alive()


def test_kill_waits_for_the_nodes_word(bench: Bench) -> None:
    session, wire = bench.join()
    session.start(JOB, ONE, "t", 2, NEEDS)
    far = FarEnd(session, wire)
    killing = threading.Thread(target=session.kill, args=(JOB, ONE))
    killing.start()
    order = None
    while order is None:
        order = next((o for o in far.orders() if isinstance(o, KillOrder)), None)
    assert killing.is_alive()
    far.say(Killed(request=order.request))
    killing.join(10)
    assert not killing.is_alive()
    assert session.workers() == {}


def test_node_goes_on_with_its_session_after_a_cut(bench: Bench) -> None:
    session, wire = bench.join()
    far = FarEnd(session, wire)
    bench.nodes.disconnected(session, wire)
    assert bench.nodes.views()[0].state == "reconnecting"
    session.start(JOB, ONE, "t", 2, NEEDS)
    again, second = bench.join(session=session.id)
    assert again is session
    assert second.welcome()["resumed"]
    far.wire = second
    (order,) = far.orders()
    assert isinstance(order, StartOrder)
    assert bench.delivered == []
    assert bench.kinds() == ["NodeJoined"]


def test_node_without_its_session_has_lost_its_workers(bench: Bench) -> None:
    session, wire = bench.join()
    session.start(JOB, ONE, "t", 2, NEEDS)
    bench.nodes.disconnected(session, wire)
    again, second = bench.join()
    assert again is not session
    assert not second.welcome()["resumed"]
    ((_, event),) = bench.delivered
    assert isinstance(event, TaskFailed)
    assert event.error.code == "node_lost"
    assert bench.kinds() == ["NodeJoined", "NodeReturned"]


def test_session_that_is_not_known_any_more_begins_anew(bench: Bench) -> None:
    _, wire = bench.join(session="of a controller that died", received=7)
    assert not wire.welcome()["resumed"]
    assert wire.welcome()["instance"] == bench.nodes.instance


def test_second_node_of_a_name_is_refused_while_the_first_is_connected(bench: Bench) -> None:
    session, wire = bench.join()
    with pytest.raises(NodeRefused, match="another node that is called a") as refused:
        bench.join(instance="another process")
    assert refused.value.refusal.passing
    bench.nodes.disconnected(session, wire)
    bench.join(instance="another process")


def test_another_version_is_refused_with_the_remedy(bench: Bench) -> None:
    with pytest.raises(NodeRefused, match="install the same version") as refused:
        bench.join(version="0.0.9")
    assert not refused.value.refusal.passing


def test_service_that_runs_its_workers_itself_takes_no_nodes(tmp_path: Path) -> None:
    with pytest.raises(NodeRefused, match=r"controller\.workers"):
        Bench(tmp_path, allowed=False).join()


def test_goodbye_is_no_loss_of_the_node_but_of_its_workers(bench: Bench) -> None:
    session, wire = bench.join()
    session.start(JOB, ONE, "t", 2, NEEDS)
    FarEnd(session, wire).say(Goodbye())
    ((_, event),) = bench.delivered
    assert isinstance(event, TaskFailed)
    assert event.error.message == "node a was stopped"
    assert bench.kinds() == ["NodeJoined", "NodeLeft"]
    assert bench.nodes.views() == []
    assert bench.nodes.awaited() == {}


def test_restarted_controller_waits_a_while_for_the_nodes_it_had(tmp_path: Path) -> None:
    Bench(tmp_path).join(slots=8, shares=("/mnt",))
    second = Bench(tmp_path)
    assert second.nodes.awaited()["a"].slots == 8
    assert second.nodes.views()[0].state == "lost"
    second.pass_time(59)
    assert "a" in second.nodes.awaited()
    second.pass_time(2)
    assert second.nodes.awaited() == {}


def test_closing_tells_nobody_but_the_node(bench: Bench) -> None:
    session, wire = bench.join()
    session.start(JOB, ONE, "t", 2, NEEDS)
    far = FarEnd(session, wire)
    far.orders()
    session.take(to_json(Beat(received=far.channel.received)).decode())
    bench.nodes.close()
    assert [order.kind for order in far.orders()] == ["farewell"]
    assert bench.delivered == []
    with pytest.raises(NodeRefused, match="being stopped"):
        bench.join("b")
