"""Simulated time: a heap of what happens when, and processes that can be killed or paused."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from tests.simulation.fibers import Fiber, Killed, current

Action = Callable[[], None]

START_MS = 1_000_000


class Scheduler:
    """Runs one thing at a time, in the order of time, then in the order of asking."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.events = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._sequence = 0

    def at(self, time_ms: int, action: Action) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (max(time_ms, self.now_ms), self._sequence, action))

    def after(self, delay_ms: int, action: Action) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run_next(self) -> bool:
        """Do the next thing; return whether there was one."""
        if not self._heap:
            return False
        time_ms, _, action = heapq.heappop(self._heap)
        self.now_ms = time_ms
        self.events += 1
        action()
        return True


class Process:
    """Something that can die or be paused, with everything it had under way."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.alive = True
        self.paused_until_ms = 0
        # What its clock shows beside the true time.
        self.clock_offset_ms = 0
        self._fibers: list[Fiber] = []

    # ---- time --------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        return self.paused_until_ms > self.scheduler.now_ms

    def now_ms(self) -> int:
        """Return what the clock of this process shows."""
        return self.scheduler.now_ms + self.clock_offset_ms

    def after(self, delay_ms: int, action: Action) -> None:
        """Do something later, unless the process is dead by then; after its pause, if it has one.

        What two calls ask for at the same time is done in the order of the calls.
        """

        def run() -> None:
            if not self.alive:
                return
            if self.is_paused:
                self.scheduler.at(self.paused_until_ms, run)
            else:
                action()

        self.scheduler.after(delay_ms, run)

    # ---- blocking code -----------------------------------------------------------------------

    def spawn(self, body: Action) -> Fiber:
        """Run blocking code of this process as a fiber, from now on."""
        fiber = Fiber(body)
        self._fibers.append(fiber)
        self._resume(fiber)
        return fiber

    def sleep(self, delay_ms: int) -> None:
        """Block the running fiber."""
        fiber = current()
        assert fiber is not None, "only a fiber can sleep"
        self.check_alive()
        self.after(delay_ms, lambda: self._resume(fiber))
        fiber.suspend()
        self.check_alive()

    def wait(self) -> Fiber:
        """Return the running fiber, which then suspends itself; wake it with `wake`."""
        fiber = current()
        assert fiber is not None, "only a fiber can wait"
        self.check_alive()
        return fiber

    def wake(self, fiber: Fiber) -> None:
        if self.alive and not fiber.done:
            self._resume(fiber)

    def check_alive(self) -> None:
        """End the running code where its process is dead."""
        fiber = current()
        if not self.alive or (fiber is not None and fiber.poisoned):
            raise Killed

    def crash_point(self) -> None:
        """A place where a fault may hit this process; those that can be hit say how."""

    def _resume(self, fiber: Fiber) -> None:
        if fiber.done:
            return
        fiber.resume()
        if fiber.done and fiber in self._fibers:
            self._fibers.remove(fiber)

    # ---- ending ------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the process: its fibers unwind at once, what it planned never happens."""
        self.alive = False
        for fiber in tuple(self._fibers):
            fiber.kill()
        self._fibers = [fiber for fiber in self._fibers if not fiber.done]
