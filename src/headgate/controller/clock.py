"""The controller's clock: the time of day that never goes back while the process lives."""

from __future__ import annotations

import time


class SteadyClock:
    """Wall-clock milliseconds at the start, counted on by the monotonic clock."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
