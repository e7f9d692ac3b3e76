"""Slots and workers wherever they are: on this machine, or on a node that has joined."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from headgate.controller.effects.slots import SlotPool
from headgate.controller.nodes.hosted import HostedWorkers
from headgate.controller.nodes.placement import Here, Offer, OnNode, Waits, Workers, choose, need_of
from headgate.controller.nodes.registry import Nodes
from headgate.controller.processes.fleet import LocalFleet
from headgate.controller.processes.logs import LogFound, read_log
from headgate.controller.rules.spec import JobSpec
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, SpareSettings

# Of so many generations of a job it is remembered where they ran.
PLACES_KEPT = 20


@dataclass(frozen=True)
class Place:
    """Where a job's next worker is to run; None = here."""

    session: HostedWorkers | None
    slots: int


class Placements:
    """The slots of jobs: those of the controller as a whole, and those of the node chosen.

    A job that is refused keeps its place in the queue of those who wait for the same nodes.
    """

    def __init__(
        self, pool: SlotPool, nodes: Nodes, mode: Workers, spec_of: Callable[[JobId], JobSpec]
    ) -> None:
        self._pool = pool
        self._nodes = nodes
        self._mode = mode
        self._spec_of = spec_of
        self._lock = threading.Lock()
        self._held: dict[JobId, Place] = {}
        # In the order of their first asking: the nodes that each waits for.
        self._waiting: dict[JobId, frozenset[str]] = {}

    def acquire(self, job: JobId, slots: int) -> str | None:
        """Reserve; return None if granted, or why not. Repeating is harmless."""
        spec = self._spec_of(job)
        need = need_of(master=spec.master, parallelism=slots, state_url=spec.state_url)
        sessions = self._nodes.sessions()
        with self._lock:
            offers = self._offers(sessions, without=job)
            reserved: set[str] = set()
            for earlier, nodes in self._waiting.items():
                if earlier == job:
                    break
                reserved |= nodes
            chosen = choose(need, offers, self._mode, reserved=reserved)
            if isinstance(chosen, Waits):
                self._held.pop(job, None)
                if chosen.for_nodes:
                    self._waiting[job] = chosen.for_nodes
                else:
                    self._waiting.pop(job, None)
                return chosen.reason
            refused = self._pool.acquire(job, slots)
            if refused is not None:
                self._held.pop(job, None)
                return refused
            self._waiting.pop(job, None)
            match chosen:
                case Here():
                    self._held[job] = Place(None, need.slots)
                case OnNode(name=name):
                    self._held[job] = Place(sessions[name], need.slots)
            return None

    def release(self, job: JobId) -> None:
        with self._lock:
            self._held.pop(job, None)
            self._waiting.pop(job, None)
        self._pool.release(job)

    def free(self) -> int | None:
        return self._pool.free()

    def place_of(self, job: JobId) -> Place:
        with self._lock:
            return self._held.get(job, Place(None, 0))

    def _offers(self, sessions: dict[str, HostedWorkers], *, without: JobId) -> list[Offer]:
        """Return what nodes have left. A worker that was ordered is counted as its job's slots."""
        offers = []
        for name, session in sessions.items():
            held = {
                job: place.slots
                for job, place in self._held.items()
                if place.session is session and job != without
            }
            for (job, _), slots in session.workers().items():
                if job not in held and job != without:
                    held[job] = slots
            free = session.slots - session.by_others - sum(held.values())
            connected = session.channel.is_connected
            offers.append(Offer(name, session.slots, free, connected, session.shares))
        offers += [
            Offer(name, hello.slots, 0, connected=False, shares=hello.shares)
            for name, hello in self._nodes.awaited().items()
        ]
        return offers


class PlacedFleet:
    """A `WorkerFleet` over this machine and all nodes."""

    def __init__(
        self,
        local: LocalFleet,
        nodes: Nodes,
        placements: Placements,
        needs_of: Callable[[JobId, Generation], SpareSettings],
    ) -> None:
        self._local = local
        self._nodes = nodes
        self._placements = placements
        self._needs_of = needs_of
        self._lock = threading.Lock()
        # The names of the nodes that the newest generations of a job ran on, for their logs.
        self._ran_on: dict[JobId, dict[Generation, str]] = {}

    def start(self, job: JobId, generation: Generation, token: str) -> None:
        place = self._placements.place_of(job)
        if place.session is None:
            self._local.start(job, generation, token)
            return
        needs = self._needs_of(job, generation)
        with self._lock:
            ran = self._ran_on.setdefault(job, {})
            ran[generation] = place.session.node
            for old in sorted(ran)[:-PLACES_KEPT]:
                del ran[old]
        place.session.start(job, generation, token, place.slots, needs)

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        for session in self._nodes.sessions().values():
            if session.has(job, generation):
                session.tell(job, generation, message)
                return
        self._local.send(job, generation, message)

    def kill(self, job: JobId, generation: Generation) -> None:
        self._local.kill(job, generation)
        for session in self._nodes.sessions().values():
            session.kill(job, generation)

    def forget(self, job: JobId) -> None:
        """Forget a job that was deleted."""
        with self._lock:
            self._ran_on.pop(job, None)
        self._local.forget(job)
        for session in self._nodes.sessions().values():
            session.forget(job)

    def pid(self, job: JobId, generation: Generation) -> int | None:
        """Return the worker's process id while it runs on this machine."""
        return self._local.pid(job, generation)

    def log_path(self, job: JobId, generation: Generation) -> Path:
        return self._local.log_path(job, generation)

    def read_log(
        self, job: JobId, generation: Generation, offset: int | None, bytes_max: int
    ) -> LogFound:
        """Return a piece of a worker's log, from wherever it ran and can be reached.

        After a restart of the controller nobody remembers where that was: all nodes are asked.
        """
        with self._lock:
            ran = dict(self._ran_on.get(job, {}))
        found = read_log(self._local.log_path(job, generation), offset, bytes_max)
        if not found.found:
            asked = self._nodes.sessions()
            names = [ran[generation]] if generation in ran else list(asked)
            for name in names:
                answer = None
                if name in asked:
                    answer = asked[name].read_log(job, generation, offset, bytes_max)
                if answer is not None and answer.found:
                    found = answer
                    break
        return replace(found, generations=tuple(sorted({*found.generations, *ran})))
