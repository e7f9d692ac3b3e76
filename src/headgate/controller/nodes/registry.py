"""The nodes of this controller: who has joined, who is silent, who is lost."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import headgate
from headgate.controller.nodes.channel import Outlet
from headgate.controller.nodes.hosted import Deliver, HostedWorkers
from headgate.controller.nodes.messages import Hello, Refusal, Welcome
from headgate.controller.nodes.session import SessionOver
from headgate.core.ids import Generation, JobId
from headgate.core.model import model, to_json
from headgate.core.ports import Clock

log = logging.getLogger("headgate.controller.nodes")

NodeState = Literal["connected", "reconnecting", "lost"]
ChangeKind = Literal["NodeJoined", "NodeReturned", "NodeLost", "NodeLeft"]

# In the controller's data folder: the nodes that it had.
NODES_FILE = "nodes.json"
# Of its timeout: how often either side says that it lives.
BEATS_PER_TIMEOUT = 6
# A watch that comes this much too late was asleep itself: it first lets others catch up.
OVERSLEPT_SECONDS = 1.0
# After so many timeouts nobody waits for a lost node any more, where workers may run here instead.
GIVEN_UP_TIMEOUTS = 4
FORGOTTEN_SECONDS = 3600.0
FAREWELL_SECONDS = 2.0


@model
class HostedWorker:
    """A worker on a node."""

    job: JobId
    generation: Generation
    slots: int


@model
class NodeView:
    """A node as a person sees it. `since_ms`: when it came into its state."""

    name: str
    state: NodeState
    since_ms: int
    host: str
    address: str
    version: str
    slots: int
    slots_free: int
    shares: tuple[str, ...]
    workers: tuple[HostedWorker, ...]


@model
class NodeChange:
    """What subscribers hear of nodes."""

    kind: ChangeKind
    node: str
    at_ms: int
    reason: str


class NodeRefused(Exception):
    """A node may not join."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass
class _Node:
    """One name. Without a session it is lost."""

    hello: Hello
    address: str
    since_ms: int
    lost_at: float | None = None
    session: HostedWorkers | None = None


class Nodes:
    """Called from many threads. Nothing is delivered while its lock is held."""

    def __init__(
        self,
        deliver: Deliver,
        clock: Clock,
        *,
        timeout_ms: int,
        memory: Path,
        allowed: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance = secrets.token_hex(8)
        self._deliver = deliver
        self._clock = clock
        self._version = headgate.__version__
        self._allowed = allowed
        self._timeout_ms = timeout_ms
        self._memory = memory
        self._now = now
        self._lock = threading.RLock()
        self._nodes: dict[str, _Node] = {}
        self._subscribers: list[Callable[[NodeChange], None]] = []
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_loop, name="nodes", daemon=True)
        if allowed:
            self._remember_former()

    # ---- life --------------------------------------------------------------------------------

    def start(self) -> None:
        self._watch.start()

    def close(self) -> None:
        """Tell every node that its workers are to end; the jobs hear nothing of it."""
        self._closing.set()
        with self._lock:
            sessions = [node.session for node in self._nodes.values() if node.session is not None]
        for session in sessions:
            session.farewell()
        deadline = time.monotonic() + FAREWELL_SECONDS
        for session in sessions:
            while (
                session.channel.is_connected
                and not session.channel.all_confirmed
                and time.monotonic() < deadline
            ):
                time.sleep(0.02)
            session.end(None)
        if self._watch.is_alive():
            self._watch.join()

    def subscribe(self, callback: Callable[[NodeChange], None]) -> None:
        with self._lock:
            self._subscribers.append(callback)

    # ---- connections -------------------------------------------------------------------------

    def join(self, hello: Hello, outlet: Outlet, address: str) -> HostedWorkers:
        """Take a connection in: go on with the node's session, or begin a new one.

        Raises `NodeRefused`.
        """
        if self._closing.is_set():
            raise _refused("closing", "the service is being stopped", passing=True)
        if hello.version != self._version:
            raise _refused(
                "version",
                f"node {hello.node} has Headgate {hello.version}, the service {self._version}:"
                " install the same version on both",
            )
        if not self._allowed:
            raise _refused(
                "workers_here",
                "the service runs its workers on its own machine: give it the setting"
                " controller.workers = 'auto' or 'nodes'",
            )
        with self._lock:
            resumed = self._resume(hello, outlet, address)
            if resumed is not None:
                return resumed
            before = self._nodes.get(hello.node)
            replaced = None if before is None else before.session
            self._refuse_second(hello, replaced)
            session = HostedWorkers(
                secrets.token_hex(8), hello, self._deliver, lambda: self._leave(session), self._now
            )
            self._nodes[hello.node] = _Node(
                hello, address, since_ms=self._clock.now_ms(), session=session
            )
            self._welcome(session, hello, outlet, resumed=False)
            self._remember()
        if replaced is not None:
            # It has a new life, or has given the old one up: its workers are gone or going.
            replaced.end(f"node {hello.node} was lost (it came back without its workers)")
        kind: ChangeKind = "NodeJoined" if before is None else "NodeReturned"
        said = f"{hello.slots} slots, host {hello.host}, from {address}"
        self._announce(kind, hello.node, said)
        return session

    def _resume(self, hello: Hello, outlet: Outlet, address: str) -> HostedWorkers | None:
        node = self._nodes.get(hello.node)
        session = None if node is None else node.session
        if node is None or session is None or session.is_over:
            return None
        if session.id != hello.session or session.instance != hello.instance:
            return None
        try:
            self._welcome(session, hello, outlet, resumed=True)
        except SessionOver as error:
            log.warning("node %s: its session cannot go on: %s", hello.node, error)
            return None
        node.hello, node.address = hello, address
        log.info("node %s is connected again", hello.node)
        return session

    def _refuse_second(self, hello: Hello, other: HostedWorkers | None) -> None:
        if other is None or other.instance == hello.instance or not other.channel.is_connected:
            return
        raise _refused(
            "name_taken",
            f"another node that is called {hello.node} is connected: choose another name with"
            " --name",
            passing=True,
        )

    def _welcome(
        self, session: HostedWorkers, hello: Hello, outlet: Outlet, *, resumed: bool
    ) -> None:
        answer = Welcome(
            instance=self.instance,
            session=session.id,
            resumed=resumed,
            received=session.channel.received,
            timeout_ms=self._timeout_ms,
        )
        first = to_json(answer).decode()
        session.channel.attach(outlet, hello.received if resumed else 0, first)

    def disconnected(self, session: HostedWorkers, outlet: Outlet) -> None:
        """The connection is gone. The node may come back with its workers: silence decides."""
        if session.channel.detach(outlet) and not session.is_over:
            log.info("node %s has lost its connection", session.node)

    # ---- losses ------------------------------------------------------------------------------

    def _leave(self, session: HostedWorkers) -> None:
        with self._lock:
            node = self._nodes.get(session.node)
            if node is not None and node.session is session:
                del self._nodes[session.node]
                self._remember()
        self._announce("NodeLeft", session.node, "it is being stopped")
        session.end(f"node {session.node} was stopped")

    def _lose(self, session: HostedWorkers, reason: str) -> None:
        with self._lock:
            node = self._nodes.get(session.node)
            if node is None or node.session is not session:
                return
            node.session, node.lost_at = None, self._now()
            node.since_ms = self._clock.now_ms()
        self._announce("NodeLost", session.node, reason)
        session.end(f"node {session.node} was lost ({reason})")

    def watch(self) -> None:
        """Say that we live, and find out who does not."""
        with self._lock:
            sessions = [node.session for node in self._nodes.values() if node.session is not None]
            over = [
                name
                for name, node in self._nodes.items()
                if node.lost_at is not None and self._now() - node.lost_at > FORGOTTEN_SECONDS
            ]
            for name in over:
                del self._nodes[name]
            if over:
                self._remember()
        timeout = self._timeout_ms / 1000
        for session in sessions:
            session.channel.beat()
            if session.channel.silent_seconds() > timeout:
                self._lose(session, f"no word for {timeout:g} s")

    def _watch_loop(self) -> None:
        pause = self._timeout_ms / 1000 / BEATS_PER_TIMEOUT
        woken = self._now()
        while not self._closing.wait(pause):
            late = self._now() - woken - pause
            woken = self._now()
            if late > OVERSLEPT_SECONDS:
                # What has arrived meanwhile is taken first.
                continue
            try:
                self.watch()
            except Exception:
                # The thread's boundary: without it no loss would be noticed any more.
                log.exception("the watch over the nodes failed")

    # ---- looking -----------------------------------------------------------------------------

    def sessions(self) -> dict[str, HostedWorkers]:
        """Return the session of every node that is not lost."""
        with self._lock:
            return {
                name: node.session
                for name, node in self._nodes.items()
                if node.session is not None and not node.session.is_over
            }

    def awaited(self) -> dict[str, Hello]:
        """Return the nodes that were lost not long ago, as they last said what they are."""
        limit = GIVEN_UP_TIMEOUTS * self._timeout_ms / 1000
        with self._lock:
            return {
                name: node.hello
                for name, node in self._nodes.items()
                if node.lost_at is not None and self._now() - node.lost_at <= limit
            }

    def views(self) -> list[NodeView]:
        with self._lock:
            nodes = sorted(self._nodes.items())
        return [self._view(name, node) for name, node in nodes]

    def _view(self, name: str, node: _Node) -> NodeView:
        session = node.session
        workers = {} if session is None else session.workers()
        taken = sum(workers.values()) + (0 if session is None else session.by_others)
        state: NodeState = "lost"
        if session is not None:
            state = "connected" if session.channel.is_connected else "reconnecting"
        return NodeView(
            name=name,
            state=state,
            since_ms=node.since_ms,
            host=node.hello.host,
            address=node.address,
            version=node.hello.version,
            slots=node.hello.slots,
            slots_free=0 if session is None else max(0, node.hello.slots - taken),
            shares=node.hello.shares,
            workers=tuple(
                HostedWorker(job=job, generation=generation, slots=slots)
                for (job, generation), slots in sorted(workers.items())
            ),
        )

    def _announce(self, kind: ChangeKind, node: str, reason: str) -> None:
        level = logging.WARNING if kind == "NodeLost" else logging.INFO
        log.log(level, "%s %s: %s", kind, node, reason)
        change = NodeChange(kind=kind, node=node, at_ms=self._clock.now_ms(), reason=reason)
        with self._lock:
            subscribers = list(self._subscribers)
        for subscriber in subscribers:
            try:
                subscriber(change)
            except Exception:
                # Whoever listens must not be able to stop a job.
                log.exception("a subscriber failed")

    # ---- a controller that starts again ------------------------------------------------------

    def _remember(self) -> None:
        """Write down who is here: after a restart they are waited for before workers run here."""
        names = {
            name: {"slots": node.hello.slots, "shares": list(node.hello.shares)}
            for name, node in self._nodes.items()
        }
        try:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            part = self._memory.with_suffix(".part")
            part.write_text(json.dumps(names))
            part.replace(self._memory)
        except OSError as error:
            log.warning("the list of nodes could not be written: %s", error)

    def _remember_former(self) -> None:
        found = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            found = json.loads(self._memory.read_text())
        for name, said in found.items():
            hello = Hello(
                version=self._version,
                node=name,
                instance="",
                host="",
                slots=said["slots"],
                shares=tuple(said["shares"]),
            )
            self._nodes[name] = _Node(hello, "", since_ms=self._clock.now_ms(), lost_at=self._now())


def _refused(code: str, message: str, *, passing: bool = False) -> NodeRefused:
    return NodeRefused(Refusal(code=code, message=message, passing=passing))
