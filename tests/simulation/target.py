"""The systems that sinks write to, and the sequential reference that their content must equal."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from headgate.core.checkpoint import WATERMARK_MIN
from headgate.core.ids import OperatorId
from tests.simulation.violation import Violation
from tests.simulation.workload import Row, Workload, value_of


@dataclass
class Target:
    """One sink's target: files by epoch, each with a final name of its own."""

    sink: OperatorId
    epochs: dict[int, dict[str, bytes]] = field(default_factory=dict)

    def has(self, epoch: int, name: str) -> bool:
        return name in self.epochs.get(epoch, {})

    def add(self, epoch: int, name: str, content: bytes) -> bool:
        """Make one file visible; repeating it changes nothing. Returns whether it was new."""
        files = self.epochs.setdefault(epoch, {})
        found = files.get(name)
        if found is None:
            files[name] = content
            return True
        if found != content:
            raise Violation(
                "published_twice", f"{self.sink}: epoch {epoch} file {name} has two contents"
            )
        return False

    def rows(self, epoch: int) -> list[Row]:
        """Return the rows of an epoch, in no order."""
        return [row for data in self.epochs.get(epoch, {}).values() for row in parse_rows(data)]


def format_rows(rows: list[Row]) -> bytes:
    return json.dumps(rows, separators=(",", ":")).encode()


def parse_rows(data: bytes) -> list[Row]:
    rows: list[list[Any]] = json.loads(data)
    return [(row[0], row[1], row[2], row[3], tuple(row[4])) for row in rows]


@dataclass
class Reference:
    """The job, run sequentially over what its epochs say they processed.

    It knows which records an epoch must begin with, and what every sum must be then. Values are
    positive, so the sums of a group tell the order in which its records were processed.
    """

    workload: Workload
    positions: list[int] = field(default_factory=list)
    sums: list[dict[int, int]] = field(default_factory=list)
    watermark: int = WATERMARK_MIN
    records: int = 0

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start from nothing, as a restart that ignores state does."""
        self.positions = [0] * len(self.workload.sources)
        self.sums = [{} for _ in self.workload.stateful]
        self.watermark = WATERMARK_MIN

    @property
    def complete(self) -> bool:
        return self.positions == [source.total for source in self.workload.sources]

    def take_epoch(self, epoch: int, published: list[list[Row]]) -> None:
        """Check what the sinks published for the next epoch; raise `Violation` if it is wrong."""
        rows = published[0]
        self._check_records(epoch, rows)
        for operator in range(len(self.workload.stateful)):
            self._check_sums(epoch, operator, rows)
        if rows and min(row[3] for row in rows) < self.watermark:
            raise Violation("watermark_went_back", f"epoch {epoch}: it had been {self.watermark}")
        self.watermark = max((row[3] for row in rows), default=self.watermark)
        for number, taken in enumerate(published):
            wanted = sorted(row for row in rows if self.workload.sink_takes(number, row[2]))
            if sorted(taken) != wanted:
                raise Violation(
                    "sinks_disagree", f"epoch {epoch}: sink {number} has {taken}, not {wanted}"
                )

    def _check_records(self, epoch: int, rows: list[Row]) -> None:
        """Every source must go on exactly where it stood, without a gap or a repetition."""
        for number, start in enumerate(self.positions):
            indices = sorted(row[1] for row in rows if row[0] == number)
            if indices != list(range(start, start + len(indices))):
                raise Violation(
                    "output_wrong",
                    f"epoch {epoch} has records {indices} of source {number}, but it had to go on"
                    f" at {start}",
                )
            self.positions[number] = start + len(indices)
        self.records += len(rows)

    def _check_sums(self, epoch: int, operator: int, rows: list[Row]) -> None:
        sums = self.sums[operator]
        for row in sorted(rows, key=lambda row: row[4][operator]):
            group = self.workload.group_of(operator, row[2])
            expected = sums.get(group, 0) + value_of(row[0], row[1])
            if row[4][operator] != expected:
                raise Violation(
                    "output_wrong",
                    f"epoch {epoch}, record {row[1]} of source {row[0]}: the sum of group {group}"
                    f" in operator {operator} is {row[4][operator]}, not {expected}",
                )
            sums[group] = expected
