"""What the tests of the tables share: a store in a dict, and a subtask that lives for a while."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from headgate.core.checkpoint import HashFilter, RunRef, TableState
from headgate.core.ids import Subtask
from headgate.state.tables import TableIo, TableVersion, version_from_state
from headgate.state.tables.mapped import release_all
from tests.support.stores import WriteOnceStore


class World:
    """One store, one scratch folder, and a cache that can be lost."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.store = WriteOnceStore()
        self.caches = 0
        self.attempts = 0
        self.generation = 1

    def lose_cache(self) -> None:
        self.caches += 1
        release_all()

    def io(self, *, subtask: int = 0, operator: str = "agg", **more: object) -> TableIo:
        self.attempts += 1
        io = TableIo(
            store=self.store,
            scratch_dir=str(self.folder / "scratch"),
            cache_dir=str(self.folder / f"cache-{self.caches}"),
            generation=self.generation,
            operator=operator,
            subtask=subtask,
            attempt=f"a{self.attempts}",
            verify_checksums=True,
        )
        return replace(io, **more)  # type: ignore[arg-type]


# Removed when the process ends.
_worlds = tempfile.TemporaryDirectory(prefix="headgate-tables-")


def new_world() -> World:
    release_all()
    return World(tempfile.mkdtemp(dir=_worlds.name))


def rescale(states: list[TableState], parallelism: int) -> list[TableVersion]:
    """Split a table over other subtasks, as a loading plan does: runs by (last epoch, path)."""
    versions = []
    for subtask in range(parallelism):
        keep = HashFilter(parallelism=parallelism, subtask=Subtask(subtask))
        runs: list[RunRef] = []
        for state in states:
            runs += [replace(run, filters=(*run.filters, keep)) for run in state.runs]
        runs.sort(key=lambda run: (run.last_epoch, run.path))
        versions.append(version_from_state(replace(states[0], runs=tuple(runs))))
    return versions


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())
