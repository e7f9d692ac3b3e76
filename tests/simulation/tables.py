"""The state tables of a simulated worker, kept as real runs in the store.

Sums per group: a run holds increments, so restoring means adding them up, and a run that is
missing, loaded twice or filtered wrongly gives a wrong sum. Records whose window is open: a run
holds those of an epoch, and it is dropped when the last of their windows has been emitted.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from headgate.core.checkpoint import WATERMARK_MIN, RunRef, TableState
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, OperatorId
from headgate.core.messages import Start
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from tests.simulation.workload import Row, Workload, hash_of, key_of, value_of, window_end

SUMS, HELD = "sums", "held"
Place = tuple[OperatorId, int]
Record = tuple[int, int]
Runs = tuple[RunRef, ...]


class Tables:
    """All state of one generation."""

    def __init__(self, workload: Workload, start: Start, store: ObjectStore) -> None:
        self._workload = workload
        self._start = start
        self._store = store
        self._runs: dict[tuple[Place, str], Runs] = {}
        self._sums: dict[Place, dict[int, int]] = {}
        self._held: dict[Place, set[Record]] = {}
        # Increments, and records, since the last flush, in memory only.
        self._changes: dict[Place, dict[int, int]] = {}
        self._taken: dict[Place, set[Record]] = {}
        for load in start.plan.subtasks:
            for table in load.tables:
                self._runs[(load.operator, int(load.subtask)), table.name] = table.runs

    @property
    def has_changes(self) -> bool:
        return bool(self._changes or self._taken)

    def references(self) -> set[str]:
        return {run.path for runs in self._runs.values() for run in runs}

    # ---- loading -----------------------------------------------------------------------------

    def load(self) -> None:
        """Read every run of the plan, and take what passes its filters."""
        cut = self._start.plan.cut
        emitted = WATERMARK_MIN if cut is None else cut.emitted_watermark
        for (place, table), runs in self._runs.items():
            for run in runs:
                rows = self._read(place[0], table, run)
                if table == HELD:
                    open_rows = {row for row in rows if self._window_end(row) > emitted}
                    self._held.setdefault(place, set()).update(open_rows)
                    continue
                sums = self._sums.setdefault(place, {})
                for group, increment in rows:
                    sums[group] = sums.get(group, 0) + increment

    def _read(self, operator: OperatorId, table: str, run: RunRef) -> list[tuple[int, int]]:
        data = self._store.get(run.path)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != run.checksum:
            raise CheckpointInvalid(f"{run.path} does not have its checksum", code="corrupt")
        number = self._workload.stateful.index(operator)
        rows: list[tuple[int, int]] = []
        for first, second in json.loads(data):
            key_hash = self._hash(number, table, (first, second))
            if all(key_hash % part.parallelism == part.subtask for part in run.filters):
                rows.append((first, second))
        return rows

    def _hash(self, operator: int, table: str, row: tuple[int, int]) -> int:
        group = row[0] if table == SUMS else self._workload.group_of(0, key_of(*row))
        return hash_of(operator, group)

    def _window_end(self, record: Record) -> int:
        return window_end(self._workload.sources[record[0]].event_time(record[1]))

    # ---- working -----------------------------------------------------------------------------

    def hold(self, source: int, index: int, emitted: int) -> bool:
        """Keep a record until its window ends; return whether it came too late for that."""
        if self._window_end((source, index)) <= emitted:
            return True
        place = self._place(0, key_of(source, index))
        self._held.setdefault(place, set()).add((source, index))
        self._taken.setdefault(place, set()).add((source, index))
        return False

    def close_windows(self, watermark: int) -> list[Record]:
        """Return the records of the windows that the watermark has passed, in order."""
        due: list[Record] = []
        for held in self._held.values():
            ended = {record for record in held if self._window_end(record) <= watermark}
            held -= ended
            due.extend(ended)
        return sorted(due, key=lambda record: (self._window_end(record), record))

    def next_timer(self) -> int | None:
        ends = (self._window_end(record) for held in self._held.values() for record in held)
        return min(ends, default=None)

    def process(self, source: int, index: int, watermark: int) -> Row:
        """Take one record and return its row."""
        key, value = key_of(source, index), value_of(source, index)
        after: list[int] = []
        for number in range(len(self._workload.stateful)):
            place, group = self._place(number, key), self._workload.group_of(number, key)
            sums = self._sums.setdefault(place, {})
            sums[group] = sums.get(group, 0) + value
            changes = self._changes.setdefault(place, {})
            changes[group] = changes.get(group, 0) + value
            after.append(sums[group])
        return source, index, key, watermark, tuple(after)

    def _place(self, operator: int, key: int) -> Place:
        group = self._workload.group_of(operator, key)
        subtask = hash_of(operator, group) % self._start.parallelism
        return self._workload.stateful[operator], subtask

    # ---- making durable ----------------------------------------------------------------------

    def flush(self, epoch: Epoch, batch: int, emitted: int) -> None:
        """Write one run per table with what changed; merge if there are too many runs."""
        for place, changes in sorted(self._changes.items()):
            whole = list(self._sums[place].items())
            self._add_run(place, SUMS, list(changes.items()), whole, epoch, batch)
        for place, taken in sorted(self._taken.items()):
            held = self._held.get(place, set())
            self._add_run(place, HELD, sorted(taken & held), sorted(held), epoch, batch)
        self._changes, self._taken = {}, {}
        for (place, table), runs in tuple(self._runs.items()):
            if table == HELD:
                self._runs[place, table] = tuple(
                    run for run in runs if window_end(run.max_time or 0) > emitted
                )

    def _add_run(
        self,
        place: Place,
        table: str,
        changes: list[tuple[int, int]],
        whole: list[tuple[int, int]],
        epoch: Epoch,
        batch: int,
    ) -> None:
        runs = self._runs.get((place, table), ())
        if len(runs) >= self._workload.runs_max and whole:
            first = min(run.first_epoch for run in runs)
            self._runs[place, table] = (self._write(place, table, whole, first, epoch, batch),)
        elif changes:
            run = self._write(place, table, changes, epoch, epoch, batch)
            self._runs[place, table] = (*runs, run)

    def _write(
        self,
        place: Place,
        table: str,
        rows: list[tuple[int, int]],
        first: Epoch,
        epoch: Epoch,
        batch: int,
    ) -> RunRef:
        operator, subtask = place
        number = self._workload.stateful.index(operator)
        ordered = sorted(rows, key=lambda row: (self._hash(number, table, row), row))
        data = json.dumps(ordered, separators=(",", ":")).encode()
        path = layout.run(self._start.generation, operator, table, epoch, subtask, f"{batch}")
        self._store.put(path, data)
        hashes = [self._hash(number, table, row) for row in ordered]
        times = [self._workload.sources[s].event_time(i) for s, i in rows] if table == HELD else []
        return RunRef(
            path=path,
            bytes=len(data),
            checksum=f"sha256:{hashlib.sha256(data).hexdigest()}",
            rows=len(ordered),
            min_hash=min(hashes),
            max_hash=max(hashes),
            min_time=min(times, default=None),
            max_time=max(times, default=None),
            first_epoch=first,
            last_epoch=epoch,
        )

    def state(self) -> dict[Place, tuple[TableState, ...]]:
        """Return the durable tables of every subtask that has one."""
        tables: dict[Place, tuple[TableState, ...]] = {}
        for (place, table), runs in sorted(self._runs.items()):
            kind: Literal["keyed", "time"] = "time" if table == HELD else "keyed"
            found = TableState(name=table, kind=kind, schema="", runs=runs)
            tables[place] = (*tables.get(place, ()), found)
        return tables
