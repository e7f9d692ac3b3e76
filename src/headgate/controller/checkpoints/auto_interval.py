"""The checkpoint interval `auto`: from what a checkpoint costs and how long a recovery may take.

A failure costs the work since the last checkpoint (half the interval on average, all of it at
worst), and every checkpoint costs its own duration C. With a mean time M between failures, the sum
of both is least at sqrt(2 * C * M) (Young, 1974). M is not known; one hour is assumed, which is
pessimistic on purpose: too short an interval costs little, too long a one is felt by a person.

A recovery takes the restart itself (F, as measured the last time) and the replay of at most one
interval and the checkpoint that was under way. So that it stays within the allowed time R even if
the replay is no faster than the first run: interval <= R - F - C.

The floor is three times C (checkpoints take at most a quarter of the time), and never below 1 s.

    interval = max(floor, min(sqrt(2 * C * M), R - F - C)),  floor = max(1 s, 3 * C)

The floor wins over the allowed recovery time: a promise that would stop all progress is no promise.
"""

from __future__ import annotations

import math

ASSUMED_FAILURE_INTERVAL_MS = 3_600_000
FLOOR_MS = 1_000
COST_RATIO = 3
# Used until a checkpoint, or a recovery, was measured.
COST_DEFAULT_MS = 500.0
RESTART_DEFAULT_MS = 10_000.0


def auto_interval_ms(
    *, cost_ms: float | None, restart_ms: float | None, recovery_time_ms: int
) -> int:
    """Return the interval for measured costs; None = not measured yet."""
    cost = COST_DEFAULT_MS if cost_ms is None else cost_ms
    restart = RESTART_DEFAULT_MS if restart_ms is None else restart_ms
    floor = max(float(FLOOR_MS), COST_RATIO * cost)
    young = math.sqrt(2 * cost * ASSUMED_FAILURE_INTERVAL_MS)
    allowed = recovery_time_ms - restart - cost
    return round(max(floor, min(young, allowed)))


def smoothed(before: float | None, measured: float) -> float:
    """Return the moving average that the interval uses: one slow checkpoint is not a trend."""
    return measured if before is None else 0.7 * before + 0.3 * measured
