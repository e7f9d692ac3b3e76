"""The controller's clock: the time of day that never goes back while the process lives."""

from __future__ import annotations

import time


class SteadyClock:
    """Wall-clock milliseconds at the start, counted on by a clock that nobody can set.

    If there is one that also counts the sleep of the machine, that one: leases go on meanwhile.
    """

    def __init__(self, start_ms: int | None = None) -> None:
        """`start_ms` is what time it is, if not this machine's clock says so."""
        self._source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        start_ns = time.time_ns() if start_ms is None else start_ms * 1_000_000
        self._offset_ns = start_ns - time.clock_gettime_ns(self._source)

    def now_ms(self) -> int:
        return (time.clock_gettime_ns(self._source) + self._offset_ns) // 1_000_000
