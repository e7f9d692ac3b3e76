"""The worker process: registers, is told what to run, runs it, and ends, as `engine/worker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.core.errors import HeadgateError, InternalError, error_info
from headgate.core.ids import Generation, JobId, WorkerId
from headgate.core.messages import (
    ControllerMessage,
    Heartbeat,
    Progress,
    Register,
    Start,
    TaskFailed,
    WorkerMessage,
)
from headgate.engine.worker.rules.facts import LinkLost
from tests.simulation.fibers import Fiber, Killed
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.controller import Controller
    from tests.simulation.edge import Edge
    from tests.simulation.network import Connection
    from tests.simulation.world import World

START_TIMEOUT_MS = 5_000

Arrival = ControllerMessage | LinkLost


class Worker(Process):
    """One generation of one job."""

    connection: Connection

    def __init__(
        self,
        world: World,
        controller: Controller,
        job: JobId,
        generation: Generation,
        token: str,
    ) -> None:
        super().__init__(world.scheduler, f"{job}/g{generation}")
        self.world = world
        self.job = job
        self.generation = generation
        self.edge: Edge | None = None
        self._controller = controller
        self._token = token
        self._inbox: list[Arrival] = []
        self._hear: Callable[[Arrival], None] | None = None
        self._listening: Fiber | None = None
        self._listens = 0

    # ---- life --------------------------------------------------------------------------------

    def begin(self) -> None:
        self.after(self.world.luck.randint(10, 400), lambda: self._begin_main())

    def _begin_main(self) -> None:
        self.spawn(self._main)

    def _main(self) -> None:
        try:
            exit_code = self._run()
        except HeadgateError as error:
            self.send(TaskFailed(generation=self.generation, error=error_info(error)))
            exit_code = 1
        self.alive = False
        self.world.trace(self.name, f"ends with {exit_code}")
        self.die(exit_code=exit_code)
        raise Killed

    def _run(self) -> int:
        from tests.simulation.edge import Edge

        self.send(
            Register(
                job=self.job,
                generation=self.generation,
                worker=WorkerId(self.name),
                token=self._token,
                pid=1,
                host="simulated",
            )
        )
        start = self.receive(START_TIMEOUT_MS)
        if not isinstance(start, Start):
            raise InternalError(f"expected to be told what to run, got {type(start).__name__}")
        self._beat()
        self.sleep(self.world.luck.randint(0, 200))
        self.edge = Edge(self, start)
        return self.edge.run()

    def die(self, *, exit_code: int) -> None:
        """End the process; called by others, or by its own code just before it raises `Killed`."""
        self.kill()
        self._controller.fleet.exited(self, exit_code)

    def crash_point(self) -> None:
        faults = self.world.faults
        if faults.hits("worker_killed"):
            self.world.trace(self.name, "killed")
            self.die(exit_code=-9)
            raise Killed
        if faults.hits("worker_paused"):
            pause_ms = faults.between("worker_paused", 200, 9_000)
            self.world.trace(self.name, f"paused for {pause_ms} ms")
            self.paused_until_ms = self.scheduler.now_ms + pause_ms
            self.sleep(pause_ms)

    # ---- messages ----------------------------------------------------------------------------

    def send(self, message: WorkerMessage) -> None:
        self.connection.to_controller(message)

    def hear(self, message: Arrival) -> None:
        """A message arrived."""
        if self._hear is not None:
            self._hear(message)
            return
        self._inbox.append(message)
        self._wake()

    def listen(self, hear: Callable[[Arrival], None]) -> None:
        """Hand on what waits, and everything else as it arrives."""
        self._hear = hear
        for message in self._inbox:
            hear(message)
        self._inbox = []

    def lose_connection(self) -> None:
        self.hear(LinkLost("the connection is gone"))

    def receive(self, timeout_ms: int) -> Arrival | None:
        """Return the next message; None where none came in time. Blocks the fiber."""
        if not self._inbox and timeout_ms > 0:
            fiber = self.wait()
            self._listening = fiber
            self._listens += 1
            this = self._listens

            def time_out() -> None:
                if self._listens == this:
                    self._wake()

            self.after(timeout_ms, time_out)
            fiber.suspend()
            self.check_alive()
        return self._inbox.pop(0) if self._inbox else None

    def _wake(self) -> None:
        fiber = self._listening
        if fiber is not None:
            self._listening = None
            # Through `after`, so that a paused process does not hear.
            self.after(0, lambda: self.wake(fiber))

    def _beat(self) -> None:
        interval_ms = self.world.workloads[self.job].spec.limits.heartbeat_interval_ms

        def beat() -> None:
            progress = self.edge.state.progress if self.edge is not None else Progress()
            self.send(Heartbeat(generation=self.generation, progress=progress))
            self.after(interval_ms, beat)

        self.after(interval_ms, beat)
