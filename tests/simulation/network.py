"""The connections between workers and controllers. Orderly by default, as TCP is; not by fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.controller.rules.events import WorkerDisconnected
from headgate.core.messages import ControllerMessage, WorkerMessage

if TYPE_CHECKING:
    from tests.simulation.controller import Controller
    from tests.simulation.worker import Worker
    from tests.simulation.world import World


class Connection:
    """One worker and the controller that started it."""

    def __init__(self, world: World, controller: Controller, worker: Worker) -> None:
        self._world = world
        self._controller = controller
        self._worker = worker
        self.open = True
        self._up_free_ms = 0
        self._down_free_ms = 0

    # ---- messages ----------------------------------------------------------------------------

    def to_controller(self, message: WorkerMessage) -> None:
        worker, controller = self._worker, self._controller

        def arrive() -> None:
            # What was said while the connection was good arrives, however late.
            if controller.alive:
                controller.fleet.take(worker, message)

        self._up_free_ms = self._carry(
            f"{worker.name} -> {controller.name}", message, self._up_free_ms, arrive
        )

    def to_worker(self, message: ControllerMessage) -> None:
        worker, controller = self._worker, self._controller

        def arrive() -> None:
            if worker.alive:
                worker.hear(message)

        self._down_free_ms = self._carry(
            f"{controller.name} -> {worker.name}", message, self._down_free_ms, arrive
        )

    def _carry(
        self,
        way: str,
        message: WorkerMessage | ControllerMessage,
        free_ms: int,
        arrive: Callable[[], None],
    ) -> int:
        """Plan the arrival; return when everything said so far will have arrived."""
        world, faults, luck = self._world, self._world.faults, self._world.luck
        if not self.open:
            return free_ms
        world.trace(way, message)
        if faults.hits("connection_lost"):
            self.break_off()
            return free_ms
        if faults.hits("message_lost"):
            world.trace(way, "lost")
            return free_ms
        at_ms = world.scheduler.now_ms + luck.randint(0, 10)
        if faults.hits("message_delayed"):
            at_ms += faults.between("message_delayed", 100, 3_000)
        if faults.hits("message_duplicated"):
            # At once, or when it is long out of date.
            longest_ms = (60, 8_000)[faults.pick("message_duplicated", 2)]
            again_ms = at_ms + faults.between("message_duplicated", 0, longest_ms)
            world.scheduler.at(again_ms, arrive)
        if not faults.hits("message_reordered"):
            at_ms = free_ms = max(at_ms, free_ms)
        else:
            at_ms += faults.between("message_reordered", 0, 500)
        world.scheduler.at(at_ms, arrive)
        return free_ms

    # ---- its end -----------------------------------------------------------------------------

    def break_off(self) -> None:
        """Both ends notice, sooner or later."""
        if not self.open:
            return
        self.open = False
        worker, controller, luck = self._worker, self._controller, self._world.luck
        self._world.trace(f"{worker.name} -- {controller.name}", "connection lost")
        event = WorkerDisconnected(generation=worker.generation)
        if controller.alive:
            controller.after(luck.randint(0, 100), lambda: controller.post(worker.job, event))
        self.detach(luck.randint(0, 2_000))

    def detach(self, notice_ms: int) -> None:
        """The controller's end is gone; the worker notices after a while."""
        self.open = False
        worker = self._worker
        if worker.alive:
            worker.after(notice_ms, worker.lose_connection)
