"""A node's workers for one controller: real processes, and the other end of the link in hand."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.controller.clock import SteadyClock
from headgate.controller.folders import Folders, cache_dir, scratch_dir
from headgate.controller.nodes.channel import Channel
from headgate.controller.nodes.messages import (
    Farewell,
    Killed,
    KillOrder,
    LogRead,
    OrderRefused,
    ReadLog,
    SlotsTaken,
    StartOrder,
    Tell,
    ToController,
    WorkerGone,
    WorkerSays,
    decode,
)
from headgate.controller.settings import Retention
from headgate.core.checkpoint import LoadingPlan
from headgate.core.ids import Generation, JobId
from headgate.core.jvm_folder import jvm_folder
from headgate.core.messages import (
    ExecutorsChanged,
    Register,
    RunSettings,
    SpareSettings,
    Start,
    TaskFailed,
)
from headgate.node.hosting import Hosting
from headgate.node.slots import NodeSlots
from tests.support.waiting import eventually
from tests.unit.controller.nodes.wire import Wire
from tests.unit.controller.support import GRAPH

JOB = JobId("orders")
ONE, TWO = Generation(1), Generation(2)
NEEDS = SpareSettings(master="local", parallelism=2, scratch_dir="/of/the/controller")

# Registers, and says what it was told to run, and with what in its environment.
WORKER = """
import argparse, json, os, socket
parser = argparse.ArgumentParser()
for name in ("--controller", "--job", "--generation"):
    parser.add_argument(name)
told = parser.parse_args()
host, _, port = told.controller.rpartition(":")
line = socket.create_connection((host, int(port)))
generation = int(told.generation)
def say(**message):
    line.sendall(json.dumps({"generation": generation, **message}).encode() + b"\\n")
say(kind="register", job=told.job, worker="w", token=os.environ["HEADGATE_WORKER_TOKEN"],
    pid=os.getpid(), host="there")
say(kind="executors_changed", executors=1)
print("told", os.environ["HEADGATE_WORKER_SPARK"], flush=True)
with line.makefile() as lines:
    for text in lines:
        settings = json.loads(text)["settings"]
        say(kind="task_failed", error={"message": json.dumps(settings)})
"""


class Node:
    """The session's node end, and what it says to the controller's end."""

    def __init__(self, folder: Path, slots: int = 4) -> None:
        self.folder = folder
        self.slots = NodeSlots(slots)
        self.over: list[str] = []
        self.hosting = Hosting(
            "session",
            self.slots,
            folder,
            Folders(folder, Retention(), SteadyClock()),
            (sys.executable, "-c", textwrap.dedent(WORKER)),
            self.over.append,
        )
        self.slots.watch(self.hosting.tell_slots)
        self._from_node, self._from_controller = Wire(), Wire()
        self.hosting.channel.attach(self._from_node, 0)
        self._channel = Channel()
        self._channel.attach(self._from_controller, 0)
        self.said: list[Any] = []

    def tell(self, message: object) -> None:
        self._channel.send(message)
        while self._from_controller.frames:
            self.hosting.take(self._from_controller.frames.pop(0))

    def start(self, generation: Generation = ONE, slots: int = 2, job: JobId = JOB) -> None:
        order = StartOrder(job=job, generation=generation, token="t", slots=slots, needs=NEEDS)
        self.tell(order)

    def wait_for(self, kind: type, such: Callable[[Any], bool] = lambda said: True) -> Any:
        """Return the first thing of this kind that the node says, or has said."""

        def found() -> list[Any]:
            while self._from_node.frames:
                data = self._channel.take(self._from_node.frames.pop(0))
                if data is not None:
                    self.said.append(decode(ToController, data))
            return [said for said in self.said if isinstance(said, kind) and such(said)]

        assert eventually(lambda: bool(found())), self.said
        return found()[0]

    def registered(self, generation: Generation = ONE) -> Register:
        said = self.wait_for(
            WorkerSays,
            lambda s: isinstance(s.message, Register) and s.message.generation == generation,
        )
        assert isinstance(said.message, Register)
        return said.message


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.hosting.close()


def test_folders_of_the_controller_become_those_of_the_node(node: Node) -> None:
    node.start()
    node.registered()
    settings = RunSettings(state_url="s3://b", scratch_dir="/theirs/s", cache_dir="/theirs/c")
    start = Start(
        job=JOB,
        generation=ONE,
        parallelism=2,
        graph=GRAPH,
        plan=LoadingPlan(job=JOB, checkpoint=None, parallelism=2),
        settings=settings,
    )
    node.tell(Tell(job=JOB, generation=ONE, message=start))
    said = node.wait_for(WorkerSays, lambda s: isinstance(s.message, TaskFailed))
    told = said.message.error.message
    assert str(scratch_dir(node.folder, JOB, ONE)) in told
    assert str(cache_dir(node.folder, JOB)) in told
    assert "/theirs" not in told
    node.tell(ReadLog(request=7, job=JOB, generation=ONE, offset=None, bytes_max=10_000))
    read = node.wait_for(LogRead)
    assert read.request == 7
    assert str(scratch_dir(node.folder, JOB, ONE)) in read.log.text
    assert "/of/the/controller" not in read.log.text


def test_what_a_worker_says_of_its_executors_reaches_the_controller(node: Node) -> None:
    node.start()
    said = node.wait_for(WorkerSays, lambda s: isinstance(s.message, ExecutorsChanged))
    assert said.job == JOB
    assert said.message.executors == 1


def test_killed_worker_gives_its_slots_and_its_scratch_back(node: Node) -> None:
    node.start()
    pid = node.registered().pid
    scratch = scratch_dir(node.folder, JOB, ONE)
    elsewhere = Path(jvm_folder(str(scratch)) or "")
    scratch.mkdir(parents=True)
    elsewhere.mkdir(exist_ok=True)
    assert node.slots.by_others("another") == 2
    node.tell(KillOrder(request=3, job=JOB, generation=ONE))
    assert node.wait_for(Killed) == Killed(request=3)
    assert not psutil.pid_exists(pid)
    assert node.wait_for(WorkerGone).generation == ONE
    assert node.slots.by_others("another") == 0
    assert not scratch.exists()
    assert not elsewhere.exists()


def test_order_that_does_not_fit_is_refused(node: Node) -> None:
    assert node.slots.take("of another controller", "worker", 3) is None
    assert node.wait_for(SlotsTaken).by_others == 3
    node.start()
    refused = node.wait_for(OrderRefused)
    assert refused.reason == "needs 2 slots, 1 of 4 are free"
    node.slots.give_back("of another controller", "worker")
    node.start(TWO)
    assert node.registered(TWO).generation == TWO


def test_farewell_ends_the_session_and_its_end_ends_all_workers(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start()
    node.start(ONE, job=JobId("other"))
    assert eventually(lambda: len(psutil.Process().children()) >= 2)
    workers = {node.registered().pid}
    node.tell(Farewell())
    assert eventually(lambda: node.over == ["the controller has stopped"])
    node.hosting.close()
    assert not any(psutil.pid_exists(pid) for pid in workers)
    assert node.slots.by_others(None) == 0
