"""Starts, reaches and kills the workers of one controller, as `processes/fleet.py` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.controller.rules.events import WorkerExited
from headgate.core.errors import ExternalError
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, Register, WorkerMessage
from tests.simulation.network import Connection
from tests.simulation.worker import Worker

if TYPE_CHECKING:
    from tests.simulation.controller import Controller
    from tests.simulation.world import World


class Fleet:
    """`WorkerFleet` for the simulation."""

    def __init__(self, world: World, controller: Controller) -> None:
        self._world = world
        self._controller = controller
        self._children: dict[tuple[JobId, Generation], tuple[Worker, Connection]] = {}
        self._tokens: dict[tuple[JobId, Generation], str] = {}
        self._registered: set[tuple[JobId, Generation]] = set()

    def start(self, job: JobId, generation: Generation, token: str) -> None:
        if (job, generation) in self._children:
            return
        if self._world.faults.hits("worker_not_started"):
            raise ExternalError("the worker process could not be started")
        self._tokens[job, generation] = token
        worker = Worker(self._world, self._controller, job, generation, token)
        connection = Connection(self._world, self._controller, worker)
        worker.connection = connection
        self._children[job, generation] = (worker, connection)
        self._world.add_worker(worker)
        worker.begin()

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        """Best effort, as the port says."""
        if (job, generation) in self._registered:
            self._children[job, generation][1].to_worker(message)

    def take(self, worker: Worker, message: WorkerMessage) -> None:
        """A message arrived. That its worker was killed meanwhile is not known down here."""
        key = (worker.job, worker.generation)
        if isinstance(message, Register):
            if self._tokens.get(key) != message.token:
                return
            self._registered.add(key)
        self._controller.post(worker.job, message)

    def kill(self, job: JobId, generation: Generation) -> None:
        """End every worker of this generation and of older ones that this controller started."""
        faults, missed = self._world.faults, False
        for key, (worker, connection) in self._children.items():
            if key[0] != job or key[1] > generation:
                continue
            self._tokens.pop(key, None)
            survives = worker.alive and faults.hits("worker_survives_kill")
            if survives:
                missed = missed or bool(faults.pick("worker_survives_kill", 2))
                self._world.trace(worker.name, "survives its kill")
            if survives and faults.pick("worker_survives_kill", 2):
                # Not even its connection could be closed: only its generation gives it away.
                continue
            self._registered.discard(key)
            if survives:
                connection.detach(faults.between("worker_survives_kill", 1_000, 12_000))
            elif worker.alive:
                connection.detach(0)
                worker.die(exit_code=-9)
        if missed:
            raise ExternalError("a worker process does not die")

    def exited(self, worker: Worker, exit_code: int) -> None:
        """The process is gone: told at once, or not at all where its host is gone, too."""
        faults = self._world.faults
        if not self._controller.alive:
            return
        if faults.hits("worker_death_unnoticed"):
            return
        event = WorkerExited(generation=worker.generation, exit_code=exit_code)
        delay_ms = self._world.luck.randint(0, 50)
        self._controller.after(delay_ms, lambda: self._controller.post(worker.job, event))

    def lose_controller(self) -> None:
        """The controller died: most of its workers die with it."""
        faults = self._world.faults
        for worker, connection in self._children.values():
            if not worker.alive:
                continue
            if faults.hits("worker_survives_controller"):
                connection.detach(faults.between("worker_survives_controller", 500, 12_000))
            else:
                connection.detach(0)
                worker.die(exit_code=-9)

    def calm(self) -> None:
        """Faults are over: who lost the connection notices it soon."""
        for key, (worker, connection) in self._children.items():
            if worker.alive and key not in self._tokens:
                connection.detach(500)
