"""What was made visible, as the checks keep account of it: files by epoch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from headgate.core.ids import OperatorId
from tests.simulation.violation import Violation
from tests.simulation.workload import Row


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
