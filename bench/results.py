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
        with_rows = [batch for batch in self.batches if batch.rows]
        if len(with_rows) <= WARMING_BATCHES:
            return None
        warmed = with_rows[WARMING_BATCHES - 1].ended
        rows = sum(batch.rows for batch in with_rows[WARMING_BATCHES:])
        return rows / (with_rows[-1].ended - warmed)

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
    values["checkpoints"] = tuple(Checkpoint(**each) for each in values["checkpoints"])
    return RunResult(**values)
