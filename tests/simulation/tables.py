"""The state tables of a simulated worker: sums per group, kept as real runs in the store.

A run holds increments, so restoring means adding them up: a run that is missing, loaded twice or
filtered wrongly gives a wrong sum.
"""

from __future__ import annotations

import hashlib
import json

from headgate.core.checkpoint import RunRef, TableState
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, OperatorId
from headgate.core.messages import Start
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from tests.simulation.workload import Row, Workload, hash_of, key_of, value_of

TABLE = "sums"
Place = tuple[OperatorId, int]


class Tables:
    """All state of one generation."""

    def __init__(self, workload: Workload, start: Start, store: ObjectStore) -> None:
        self._workload = workload
        self._start = start
        self._store = store
        self._runs: dict[Place, tuple[RunRef, ...]] = {}
        self._sums: dict[Place, dict[int, int]] = {}
        # Increments since the last flush, in memory only.
        self._changes: dict[Place, dict[int, int]] = {}
        for load in start.plan.subtasks:
            for table in load.tables:
                self._runs[load.operator, int(load.subtask)] = table.runs

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def references(self) -> set[str]:
        return {run.path for runs in self._runs.values() for run in runs}

    def load(self) -> None:
        """Read every run of the plan and add up what passes its filters."""
        for place, runs in self._runs.items():
            sums = self._sums.setdefault(place, {})
            for run in runs:
                for group, increment in self._read(place[0], run):
                    sums[group] = sums.get(group, 0) + increment

    def _read(self, operator: OperatorId, run: RunRef) -> list[tuple[int, int]]:
        data = self._store.get(run.path)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != run.checksum:
            raise CheckpointInvalid(f"{run.path} does not have its checksum", code="corrupt")
        number = self._workload.stateful.index(operator)
        rows: list[tuple[int, int]] = []
        for group, increment in json.loads(data):
            key_hash = hash_of(number, group)
            if all(key_hash % part.parallelism == part.subtask for part in run.filters):
                rows.append((group, increment))
        return rows

    def process(self, source: int, index: int, watermark: int) -> Row:
        """Take one record and return its row."""
        key, value = key_of(source, index), value_of(source, index)
        after: list[int] = []
        for number, operator in enumerate(self._workload.stateful):
            group = self._workload.group_of(number, key)
            place = (operator, hash_of(number, group) % self._start.parallelism)
            sums = self._sums.setdefault(place, {})
            sums[group] = sums.get(group, 0) + value
            changes = self._changes.setdefault(place, {})
            changes[group] = changes.get(group, 0) + value
            after.append(sums[group])
        return source, index, key, watermark, tuple(after)

    def flush(self, epoch: Epoch, batch: int) -> None:
        """Write one run per subtask with what changed; merge where there are too many runs."""
        for place, changes in sorted(self._changes.items()):
            runs = self._runs.get(place, ())
            if len(runs) >= self._workload.runs_max:
                merged = dict(self._sums[place])
                first = min(run.first_epoch for run in runs)
                self._runs[place] = (self._write(place, merged, first, epoch, batch),)
            else:
                self._runs[place] = (*runs, self._write(place, changes, epoch, epoch, batch))
        self._changes = {}

    def _write(
        self, place: Place, increments: dict[int, int], first: Epoch, epoch: Epoch, batch: int
    ) -> RunRef:
        operator, subtask = place
        number = self._workload.stateful.index(operator)
        rows = sorted(increments.items(), key=lambda item: (hash_of(number, item[0]), item[0]))
        data = json.dumps(rows, separators=(",", ":")).encode()
        path = layout.run(self._start.generation, operator, TABLE, epoch, subtask, f"{batch}")
        self._store.put(path, data)
        hashes = [hash_of(number, group) for group in increments]
        return RunRef(
            path=path,
            bytes=len(data),
            checksum=f"sha256:{hashlib.sha256(data).hexdigest()}",
            rows=len(rows),
            min_hash=min(hashes),
            max_hash=max(hashes),
            first_epoch=first,
            last_epoch=epoch,
        )

    def state(self) -> dict[Place, tuple[TableState, ...]]:
        """Return the durable tables of every subtask that has one."""
        return {
            place: (TableState(name=TABLE, kind="keyed", schema="", runs=runs),)
            for place, runs in self._runs.items()
        }
