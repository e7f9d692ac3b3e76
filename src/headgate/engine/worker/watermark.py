"""The watermark of a job: pure, fed by what the driver observed.

Per source: the greatest value of its watermark expression over all rows read so far. The job's
watermark is the minimum over its sources. A source that has ended no longer counts, one that has
been idle for longer than allowed does not hold the others back, and when all have ended the
watermark is at infinity. It never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.ids import OperatorId


@dataclass
class WatermarkTracker:
    sources: tuple[OperatorId, ...]
    idle_ms: int
    observed: dict[OperatorId, int] = field(default_factory=dict)
    finished: set[OperatorId] = field(default_factory=set)
    active_at_ms: dict[OperatorId, int] = field(default_factory=dict)
    reached: int = WATERMARK_MIN

    @classmethod
    def restore(
        cls,
        sources: Iterable[OperatorId],
        idle_ms: int,
        now_ms: int,
        observed: dict[OperatorId, int] | None = None,
        reached: int = WATERMARK_MIN,
    ) -> WatermarkTracker:
        ids = tuple(sources)
        known = {s: w for s, w in (observed or {}).items() if s in ids}
        return cls(ids, idle_ms, known, set(), dict.fromkeys(ids, now_ms), reached)

    def observe(self, source: OperatorId, watermark: int | None, now_ms: int) -> None:
        """Take over what one micro-batch saw of one source; None = it had no rows."""
        if watermark is not None:
            self.observed[source] = max(watermark, self.observed.get(source, WATERMARK_MIN))
            self.active_at_ms[source] = now_ms

    def finish(self, source: OperatorId) -> None:
        self.finished.add(source)

    def current(self, now_ms: int) -> int:
        """Return the watermark for the next micro-batch."""
        open_sources = [s for s in self.sources if s not in self.finished]
        if not open_sources:
            self.reached = WATERMARK_MAX
            return self.reached
        active = [s for s in open_sources if now_ms - self.active_at_ms[s] < self.idle_ms]
        # When every open source is idle nothing is known about the future: the watermark stays.
        if active:
            lowest = min(self.observed.get(s, WATERMARK_MIN) for s in active)
            self.reached = max(self.reached, lowest)
        return self.reached
