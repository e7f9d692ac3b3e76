"""Requests that wait for a job: beside the threads that answer all others.

A command is answered when its job has stored it, which takes up to half a minute if the job is
stuck. Enough of them would otherwise hold every thread of the service, the probe's included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from headgate.core.errors import ExternalError

COMMANDS_MAX = 32
# How long a command may wait for a thread.
QUEUE_SECONDS = 3.0

Answer = TypeVar("Answer")


class CommandThreads:
    """A bounded number of threads for commands; whoever gets none in time is told to come back."""

    def __init__(self, threads: int = COMMANDS_MAX, queue_seconds: float = QUEUE_SECONDS) -> None:
        self._threads = threads
        self._queue_seconds = queue_seconds
        # Both belong to an event loop, and there is none yet when the service is built.
        self._queue: CapacityLimiter | None = None
        self._running: CapacityLimiter | None = None

    async def run(self, command: Callable[[], Answer]) -> Answer:
        """Run the command in a thread. Raises `ExternalError` if none is free for too long."""
        if self._queue is None or self._running is None:
            self._queue = CapacityLimiter(self._threads)
            self._running = CapacityLimiter(self._threads)
        place = object()
        try:
            with fail_after(self._queue_seconds):
                await self._queue.acquire_on_behalf_of(place)
        except TimeoutError as error:
            raise ExternalError(
                f"{self._threads} commands are waiting for their jobs: try again in a moment",
                code="too_many",
            ) from error
        try:
            return await to_thread.run_sync(command, limiter=self._running)
        finally:
            self._queue.release_on_behalf_of(place)
