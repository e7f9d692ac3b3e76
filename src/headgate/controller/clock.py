"""The controller's clock: the time of day that never goes back while the process lives."""

from __future__ import annotations

import time


class SteadyClock:
    """Wall-clock milliseconds at the start, counted on by a clock that nobody can set.

    If there is one that also counts the sleep of the machine, that one: leases go on meanwhile.
    """

    def __init__(self) -> None:
        self._source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._offset_ns = time.time_ns() - time.clock_gettime_ns(self._source)

    def now_ms(self) -> int:
        return (time.clock_gettime_ns(self._source) + self._offset_ns) // 1_000_000
