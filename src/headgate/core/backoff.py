"""How long to wait before the n-th try: min(max, initial * 2^n), half of it jitter.

The one home of backoff. It draws no random numbers: whoever waits brings its own, so that a
simulation plays the same waits again.
"""

from __future__ import annotations

import zlib

# 2^62 ms is longer than the age of the universe; doubling stops there so that no n overflows.
_DOUBLINGS_MAX = 62


def roll(seed: int, n: int) -> float:
    """Return a number in [0, 1) that depends on the seed and on n alone.

    A job is given its seed when it is created: it waits the same times in a simulation, and two
    jobs that failed together do not come back together.
    """
    return zlib.crc32(f"{seed}/{n}".encode()) / 2**32


def backoff_ms(*, initial_ms: int, max_ms: int, n: int, roll: float) -> int:
    """Return the delay before try `n` (the first is 0): between half and all of the bound."""
    bound = min(max_ms, initial_ms << min(max(n, 0), _DOUBLINGS_MAX))
    return round(bound * (0.5 + 0.5 * roll))
