"""What a measured run leaves behind: one JSON file, the same for every system.

`overall` is the rows over the whole time from the start of the query to its end, without the start
of Spark; `steady` leaves out the first three micro-batches and ends with the last one that had
input, pauses between micro-batches included. Both are rates of input rows.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

WARMING_BATCHES = 3


@dataclass(frozen=True)
class Batch:
    """One micro-batch. Times are seconds since the query started."""

    rows: int
    started: float
    # When the next could begin: everything that held the loop up is in it.
    ended: float
    # It ended with a checkpoint.
    checkpoint: bool = False
    # Milliseconds by part, as the system itself reports them.
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def milliseconds(self) -> float:
        return (self.ended - self.started) * 1000


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: what it wrote, and how long the system was busy with it."""

    epoch: int
    milliseconds: float
    bytes: int
    objects: int


@dataclass(frozen=True)
class RunResult:
    system: str
    workload: str
    variant: str
    rows: int
    seconds: float
    batches: tuple[Batch, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    # "exact", or what was wrong; "not checked" is an answer only for runs without a result.
    checked: str = "not checked"
    # Anything else worth showing: bytes and objects in the end, versions, notes.
    facts: dict[str, Any] = field(default_factory=dict)
    # (seconds since the start, processor seconds spent since then), about twice a second.
    cpu: tuple[tuple[float, float], ...] = ()
    load_before: float = 0.0
    load_after: float = 0.0

    @property
    def exact(self) -> bool:
        return self.checked == "exact"

    @property
    def overall(self) -> float:
        """Rows per second over everything."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def steady(self) -> float | None:
        """Rows per second after warming up; None where too few micro-batches ran."""
        span = self._steady_span()
        return None if span is None else span[2] / (span[1] - span[0])

    @property
    def cpu_per_million(self) -> float | None:
        """Processor seconds per million rows, steady where there is a steady part."""
        if not self.cpu:
            return None
        span = self._steady_span() or (0.0, self.cpu[-1][0], self.rows)
        spent = self._cpu_at(span[1]) - self._cpu_at(span[0])
        return spent / span[2] * 1e6 if span[2] else None

    def _steady_span(self) -> tuple[float, float, int] | None:
        """Return when warming up ended, when the last input was done, and the rows between."""
        with_rows = [batch for batch in self.batches if batch.rows]
        if len(with_rows) <= WARMING_BATCHES:
            return None
        rows = sum(batch.rows for batch in with_rows[WARMING_BATCHES:])
        return with_rows[WARMING_BATCHES - 1].ended, with_rows[-1].ended, rows

    def _cpu_at(self, moment: float) -> float:
        """Return the processor time spent until then, between two samples along a line."""
        before = (0.0, 0.0)
        for sample in self.cpu:
            if sample[0] >= moment:
                share = (moment - before[0]) / max(1e-9, sample[0] - before[0])
                return before[1] + share * (sample[1] - before[1])
            before = sample
        return before[1]

    def batch_p50_ms(self, *, rows: int | None = None) -> float | None:
        """Return the median time of the micro-batches (of this many rows) after warming up."""
        times = [
            batch.milliseconds
            for batch in self.batches[WARMING_BATCHES:]
            if batch.rows and rows in (None, batch.rows)
        ]
        return statistics.median(times) if times else None

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))


def load(path: Path) -> RunResult:
    """Read a result back."""
    values = json.loads(path.read_text())
    values["batches"] = tuple(Batch(**batch) for batch in values["batches"])
    values["cpu"] = tuple((at, spent) for at, spent in values["cpu"])
    values["checkpoints"] = tuple(Checkpoint(**each) for each in values["checkpoints"])
    return RunResult(**values)
