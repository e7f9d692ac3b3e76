"""How many rows the next micro-batch may take: few while it keeps up, more when it is behind.

A micro-batch has costs that do not depend on its rows, so a backlog is read in large ones; but a
barrier waits for the one that is running, so none should take much longer than `WANTED_MS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_ROWS = 100_000
WANTED_MS = 2_000.0
GROWTH_MAX = 4.0


@dataclass(frozen=True)
class BatchPace:
    rows_max: int
    limit: int

    @classmethod
    def first(cls, rows_max: int) -> BatchPace:
        return cls(rows_max, min(FIRST_ROWS, rows_max))

    def after(self, elapsed_ms: float, *, behind: bool) -> BatchPace:
        """Learn from a finished micro-batch; `behind` = more rows than it could take are waiting.

        Twice as long as wanted is too long, whatever the reason: the first ones are slow, because
        Spark still compiles.
        """
        fits = WANTED_MS / max(1.0, elapsed_ms)
        if behind and fits > 1:
            grown = int(self.limit * min(fits, GROWTH_MAX))
            return replace(self, limit=min(grown, self.rows_max))
        if fits < 0.5:
            return replace(self, limit=max(self.limit // 2, min(FIRST_ROWS, self.rows_max)))
        return self
