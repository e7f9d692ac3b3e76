"""How many rows the next micro-batch may take: small when it keeps up, growing when it is behind.

A full micro-batch that was quick means there is more waiting and time to take it: the limit
doubles, up to the user's. One that was slow halves it, so that barriers do not wait long.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_ROWS = 100_000
QUICK_MS = 1_000
SLOW_MS = 4_000


@dataclass
class BatchPace:
    rows_max: int
    limit: int = 0

    def __post_init__(self) -> None:
        self.limit = self.limit or min(FIRST_ROWS, self.rows_max)

    def note(self, rows: int, elapsed_ms: float) -> None:
        """Learn from a finished micro-batch."""
        if rows >= self.limit and elapsed_ms < QUICK_MS:
            self.limit = min(self.limit * 2, self.rows_max)
        elif elapsed_ms > SLOW_MS and self.limit > 1:
            self.limit = max(self.limit // 2, min(FIRST_ROWS, self.rows_max))
