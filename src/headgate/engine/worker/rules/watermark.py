"""The watermark of a job.

Per source: the greatest value of its watermark expression over all rows read so far. The job's
watermark is the minimum over its sources. A source that has ended no longer counts, one that is
idle does not hold the others back, and when all have ended the watermark is at infinity. It never
goes back.

A source is idle only if it was looked at again and again and had nothing to read for longer than
allowed. One that has rows to read is never idle, however long ago it was last looked at: a
micro-batch may take longer than the time allowed, a host may sleep, a clock may leap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.ids import OperatorId

# Of the time between two looks no more than this part of the allowed time counts as idle: a clock
# that leaps between them does not make a source idle by itself.
GAP_PARTS = 4


@dataclass(frozen=True)
class Watermark:
    sources: tuple[OperatorId, ...]
    idle_ms: int
    observed: Mapping[OperatorId, int] = field(default_factory=dict)
    finished: frozenset[OperatorId] = frozenset()
    # The sources that had rows to read when they were last looked at.
    waiting: frozenset[OperatorId] = frozenset()
    # Source -> for how long it has had nothing to read, and when it was last looked at.
    quiet_ms: Mapping[OperatorId, int] = field(default_factory=dict)
    looked_ms: Mapping[OperatorId, int] = field(default_factory=dict)
    reached: int = WATERMARK_MIN

    @classmethod
    def restored(
        cls,
        sources: Iterable[OperatorId],
        idle_ms: int,
        observed: Mapping[OperatorId, int] | None = None,
        reached: int = WATERMARK_MIN,
        finished: Iterable[OperatorId] = (),
    ) -> Watermark:
        ids = tuple(sources)
        known = {s: w for s, w in (observed or {}).items() if s in ids}
        return cls(ids, idle_ms, known, frozenset(finished), reached=reached)

    def with_look(self, source: OperatorId, *, has_rows: bool, now_ms: int) -> Watermark:
        """Take over whether a source has rows to read."""
        gap_ms = now_ms - self.looked_ms.get(source, now_ms)
        counted_ms = min(max(gap_ms, 0), max(self.idle_ms // GAP_PARTS, 1))
        quiet_ms = 0 if has_rows else self.quiet_ms.get(source, 0) + counted_ms
        others = self.waiting - {source}
        return replace(
            self,
            waiting=others | {source} if has_rows else others,
            quiet_ms={**self.quiet_ms, source: quiet_ms},
            looked_ms={**self.looked_ms, source: now_ms},
        )

    def with_rows(self, source: OperatorId, watermark: int | None) -> Watermark:
        """Take over what was seen of a source's rows; None = there was no row with a time."""
        if watermark is None:
            return self
        greatest = max(watermark, self.observed.get(source, WATERMARK_MIN))
        return replace(self, observed={**self.observed, source: greatest})

    def with_end(self, source: OperatorId) -> Watermark:
        return replace(self, finished=self.finished | {source})

    def with_epoch(self, observed: Mapping[OperatorId, int], reached: int) -> Watermark:
        """Take over what a rebuilt epoch had come to."""
        return replace(
            self, observed={**self.observed, **observed}, reached=max(self.reached, reached)
        )

    def advanced(self) -> Watermark:
        """Return it with `reached` for the next micro-batch."""
        open_sources = [s for s in self.sources if s not in self.finished]
        if not open_sources:
            return replace(self, reached=WATERMARK_MAX)
        active = [s for s in open_sources if not self._is_idle(s)]
        # When every open source is idle nothing is known about the future: the watermark stays.
        if not active:
            return self
        lowest = min(self.observed.get(s, WATERMARK_MIN) for s in active)
        return replace(self, reached=max(self.reached, lowest))

    @property
    def all_finished(self) -> bool:
        return len(self.finished) == len(self.sources)

    def _is_idle(self, source: OperatorId) -> bool:
        return source not in self.waiting and self.quiet_ms.get(source, 0) >= self.idle_ms
