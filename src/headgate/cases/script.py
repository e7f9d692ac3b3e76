"""The time of a case: its steps open one after the other, each once the one before has settled.

A step has settled when all its rows are read, every window that they closed is emitted, and, if
something is expected after it, all that is published. A micro-batch never has rows of two steps.
Watermarks move at the end of a step only, however its rows are cut: so what is late in a case does
not depend on the micro-batches, and a run with kills must come to the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headgate.cases.document import CaseFileError
from headgate.core.ids import Epoch, OperatorId
from headgate.engine.batch.context import BatchRequest
from headgate.engine.batch.microbatch import BatchResult
from headgate.rehearsal import Checkpoints, Conduct

# In which step a source is, and how many of its rows in this step are read.
Place = tuple[int, int]
# Source -> the watermark that its rows, or a person, have brought it to by the end of a step.
Marks = dict[tuple[OperatorId, int], int]


@dataclass(frozen=True)
class ScriptStep:
    """One step: how many rows each source has in it, and how time moves at its end."""

    rows: dict[OperatorId, int]
    watermark_us: int | None = None
    advance_us: int | None = None
    # Everything must be published before the next step opens.
    publishes: bool = False


@dataclass
class Script(Conduct):
    """One run of a case. `marks` is what the first run saw, for those that cut otherwise."""

    steps: tuple[ScriptStep, ...]
    now_ms: int
    # The stream ends: with the last rows, or once the last step has settled.
    ends: bool = True
    ends_with_rows: bool = False
    marks: Marks | None = None
    # Called after each micro-batch: may trigger checkpoints, or die.
    after_batch: Callable[[Checkpoints], None] | None = None
    # Step -> the epoch with which everything of it was published.
    settled: dict[int, Epoch] = field(default_factory=dict)
    seen: Marks = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._at = 0
        self._over = False
        # The sources that had nothing to read since the last micro-batch.
        self._quiet: set[OperatorId] = set()
        self._awaited: Epoch | None = None

    def clock(self) -> int:
        """Return the time of day: it moves as far as the steps so far have moved time."""
        passed = self.steps if self._over else self.steps[: self._at]
        return self.now_ms + sum(step.advance_us or 0 for step in passed) // 1000

    # ---- asked by the sources ---------------------------------------------------------------

    def open_for(self, source: OperatorId, place: Place) -> int:
        """Return the step that a source may read, which is at `place`; opens the next if due."""
        self._at = max(self._at, place[0])
        step, row = place
        if step == self._at and row == self.steps[step].rows[source] and not self._over:
            if source in self._quiet and self._quiet >= set(self.steps[step].rows):
                self._settle()
            else:
                self._quiet.add(source)
        return self._at

    def finished(self, source: OperatorId, place: Place) -> bool:
        """Whether a source that has come to `place` has no more rows, for ever."""
        last = len(self.steps) - 1
        at_end = place == (last, self.steps[last].rows[source])
        return at_end and self.ends and (self.ends_with_rows or self._over)

    def _settle(self) -> None:
        if self.steps[self._at].publishes and not self._published():
            return
        self._quiet = set()
        if self._at + 1 < len(self.steps):
            self._at += 1
            return
        self._over = True
        if not self.ends:
            self.checkpoints.trigger(then_stop=True)

    def _published(self) -> bool:
        """Whether everything up to here is published; asks for it if nobody has."""
        if self.checkpoints.in_flight:
            return False
        if self._awaited is not None and self.checkpoints.recorded >= self._awaited:
            self.settled[self._at] = self.checkpoints.recorded
            self._awaited = None
            return True
        self._awaited = Epoch(self.checkpoints.recorded + 1)
        self.checkpoints.trigger()
        return False

    # ---- told by the run --------------------------------------------------------------------

    def ran(self, request: BatchRequest, result: BatchResult) -> BatchResult:
        self._quiet = set()
        # What waited for a checkpoint has more to wait for.
        self._awaited = None
        observed = dict(result.observed)
        for source, end in request.cut.end.items():
            if end != request.cut.start[source] and source in observed:
                mark = self._mark(source, _place(end), observed[source].watermark)
                observed[source] = replace(observed[source], watermark=mark)
        if self.after_batch is not None:
            self.after_batch(self.checkpoints)
        return replace(result, observed=observed)

    def _mark(self, source: OperatorId, end: Place, watermark: int | None) -> int | None:
        step, row = end
        if row < self.steps[step].rows[source]:
            return None
        if self.marks is not None:
            return self.marks.get((source, step))
        before = self.seen.get((source, step - 1))
        known = [m for m in (before, watermark, self.steps[step].watermark_us) if m is not None]
        advance = self.steps[step].advance_us
        if advance is not None:
            if not known:
                raise CaseFileError(
                    f"step {step + 1} has `advance`, but no row so far has a time: say `watermark`"
                )
            known.append(max(known) + advance)
        if known:
            self.seen[source, step] = max(known)
        return max(known, default=None)


def _place(position: object) -> Place:
    assert isinstance(position, list | tuple)
    return position[0], position[1]
