"""Where a worker that counts publishes: each epoch is a range `[start, end)` of rows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headgate.core.checkpoint import SinkCommit
from headgate.core.graph import Operator
from headgate.operators import SinkSpec


class Target(Protocol):
    def publish(self, sink: Operator, commit: SinkCommit) -> None:
        """Make the range visible. Idempotent by its epoch."""


def range_of(commit: SinkCommit) -> tuple[int, int]:
    assert isinstance(commit.commit, list)
    start, end = commit.commit
    assert isinstance(start, int)
    assert isinstance(end, int)
    return start, end


@dataclass
class MemoryTarget:
    """Outlives every process of a test, and counts what must never happen."""

    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    contradictions: int = 0

    def publish(self, sink: Operator, commit: SinkCommit) -> None:
        found = range_of(commit)
        if self.epochs.setdefault(commit.epoch, found) != found:
            self.contradictions += 1

    def ranges(self) -> list[tuple[int, int]]:
        return [one for _, one in sorted(self.epochs.items()) if one[0] != one[1]]


@dataclass(frozen=True)
class FolderTarget:
    """One file per epoch, whatever the sink."""

    folder: Path

    def publish(self, sink: Operator, commit: SinkCommit) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{commit.epoch:07}.{os.getpid()}"
        temporary.write_text(json.dumps(range_of(commit)))
        temporary.replace(self.folder / f"{commit.epoch:07}.json")


class PathTarget:
    """The folder that the sink's path names, or nowhere; rows of a preview as it reads them."""

    def publish(self, sink: Operator, commit: SinkCommit) -> None:
        assert isinstance(sink.spec, SinkSpec)
        path = sink.spec.options.get("path")
        if not isinstance(path, str):
            return
        if sink.spec.connector == "preview":
            with Path(path).open("a") as file:
                file.writelines(json.dumps({"n": n}) + "\n" for n in range(*range_of(commit)))
        else:
            FolderTarget(Path(path)).publish(sink, commit)
