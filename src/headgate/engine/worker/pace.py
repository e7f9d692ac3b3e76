"""How many rows the next micro-batch may take: few while it keeps up, more when it is behind.

A micro-batch has costs that do not depend on its rows, so a backlog is read in large ones; but a
barrier waits for the one that is running, so none should take much longer than `WANTED_MS`.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_ROWS = 100_000
WANTED_MS = 2_000.0
GROWTH_MAX = 4.0


@dataclass
class BatchPace:
    rows_max: int
    limit: int = 0

    def __post_init__(self) -> None:
        self.limit = self.limit or self._least

    @property
    def _least(self) -> int:
        return min(FIRST_ROWS, self.rows_max)

    def note(self, elapsed_ms: float, *, behind: bool) -> None:
        """Learn from a finished micro-batch; `behind` = more rows than it could take are waiting.

        Twice as long as wanted is too long, whatever the reason: the first ones are slow, because
        Spark still compiles.
        """
        fits = WANTED_MS / max(1.0, elapsed_ms)
        if behind and fits > 1:
            self.limit = min(int(self.limit * min(fits, GROWTH_MAX)), self.rows_max)
        elif fits < 0.5:
            self.limit = max(self.limit // 2, self._least)
