"""Drives an operator's task without Spark: batches, barriers, crashes, other parallelisms."""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN, TableState
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.ids import Subtask as SubtaskNumber
from headgate.engine.batch.context import BatchContext
from headgate.engine.task.subtask import OperatorTask, Subtask, table_io
from headgate.state.protocol.records import OperatorCheckpointMetadata, SubtaskState
from headgate.state.recovery.loading import plan_subtasks
from headgate.state.tables.mapped import release_all
from headgate.state.tables.version import TableVersion, state_from_version, version_from_state

OPERATOR = OperatorId("operator")
Rows = list[dict[str, Any]]


def key_hash(*key: object) -> int:
    """A stand-in for Spark's hash with few values, so that different keys meet."""
    return zlib.crc32(repr(key).encode()) % 5 - 2


@dataclass(frozen=True)
class Step:
    """One micro-batch of so many rows; what follows it."""

    rows: int
    barrier: bool = False
    # Everything since the last barrier is lost, and the job resumes with so many subtasks.
    crash_to: int | None = None


steps = st.lists(
    st.builds(
        Step,
        rows=st.integers(0, 12),
        barrier=st.booleans(),
        crash_to=st.none() | st.integers(1, 3),
    ),
    max_size=6,
)


@dataclass
class OperatorLife:
    """All subtasks of one operator over one job's life."""

    make_task: Callable[[], OperatorTask]
    parallelism: int = 2
    # What each micro-batch gave.
    batches: list[Rows] = field(default_factory=list)
    late: int = 0
    timers: list[int] = field(default_factory=list)
    _watermark: int = WATERMARK_MIN
    _emitted: int = WATERMARK_MIN
    _epoch: int = 1
    _batch: int = 0
    _attempt: int = 0
    _generation: int = 1
    _versions: dict[int, tuple[TableVersion, ...]] = field(default_factory=dict)
    _saved: list[tuple[TableState, ...]] = field(default_factory=list)
    _saved_parallelism: int = 2
    _saved_batches: int = 0
    _saved_late: int = 0
    _saved_emitted: int = WATERMARK_MIN

    def __post_init__(self) -> None:
        release_all()
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-operator-"))
        self._saved_parallelism = self.parallelism

    @property
    def output(self) -> Rows:
        return [row for rows in self.batches for row in rows]

    def close(self) -> None:
        release_all()
        shutil.rmtree(self.folder)

    def run(self, rows: pa.Table, watermark: int, *, barrier: bool = False) -> Rows:
        """Run one micro-batch on every subtask; return what it gave."""
        self._batch += 1
        self._watermark = watermark
        context = self._context(barrier)
        given: Rows = []
        self.timers = []
        for index in range(self.parallelism):
            given += self._run_subtask(context, index, rows)
        self._emitted = max(self._emitted, watermark)
        self.batches.append(given)
        if barrier:
            self._save()
        return given

    def _run_subtask(self, context: BatchContext, index: int, rows: pa.Table) -> Rows:
        self._attempt += 1
        subtask = Subtask(
            context=context,
            io=replace(table_io(context, OPERATOR, index, f"a{self._attempt}"), scratch_fanout=2),
            versions={v.name: v for v in self._versions.get(index, ())},
            operator=OPERATOR,
        )
        hashes = rows["_hash"].to_pylist()
        mine = rows.filter(pa.array([h % self.parallelism == index for h in hashes], pa.bool_()))
        # Spark cuts the rows of a partition into batches of any size.
        pieces = mine.to_batches(max_chunksize=5)
        given = [
            row for out in self.make_task().run(subtask, iter(pieces)) for row in out.to_pylist()
        ]
        versions = []
        for table in subtask.tables:
            if context.barrier:
                versions.append(table.finish_epoch(context.epoch)[0])
            else:
                versions.append(table.finish_batch(context.epoch, context.batch))
        self._versions[index] = tuple(versions)
        self.late += subtask.rows_late
        if subtask.next_timer is not None:
            self.timers.append(subtask.next_timer)
        return given

    def _context(self, barrier: bool) -> BatchContext:
        return BatchContext(
            job=JobId("job"),
            generation=Generation(self._generation),
            epoch=Epoch(self._epoch),
            batch=self._batch,
            parallelism=self.parallelism,
            watermark=self._watermark,
            emitted_watermark=self._emitted,
            barrier=barrier,
            suppress_output=False,
            state_url=str(self.folder / "state"),
            scratch_dir=str(self.folder / "scratch"),
            cache_dir=str(self.folder / "cache"),
            cache_bytes_max=1 << 30,
            verify_checksums=True,
        )

    def _save(self) -> None:
        self._epoch += 1
        self._saved = [
            tuple(state_from_version(v) for v in self._versions[index])
            for index in range(self.parallelism)
        ]
        self._saved_parallelism = self.parallelism
        self._saved_batches, self._saved_late = len(self.batches), self.late
        self._saved_emitted = self._emitted

    def crash(self, parallelism: int) -> None:
        """Lose everything since the last barrier; resume from it with so many subtasks."""
        release_all()
        self._generation += 1
        self.parallelism = parallelism
        del self.batches[self._saved_batches :]
        self.late = self._saved_late
        self._emitted = self._watermark = self._saved_emitted
        self._versions = {}
        if not self._saved:
            return
        metadata = OperatorCheckpointMetadata(
            job=JobId("job"),
            generation=Generation(1),
            epoch=Epoch(self._epoch),
            attempt=1,
            watermark=self._saved_emitted,
            operator=OPERATOR,
            kind="process",
            parallelism=self._saved_parallelism,
            subtasks=tuple(
                SubtaskState(subtask=SubtaskNumber(i), tables=tables)
                for i, tables in enumerate(self._saved)
            ),
        )
        for load in plan_subtasks({OPERATOR: metadata}, parallelism):
            self._versions[int(load.subtask)] = tuple(version_from_state(t) for t in load.tables)


def play(
    life: OperatorLife,
    count: int,
    script: Sequence[Step],
    prepare: Callable[[int, int], tuple[pa.Table, int | None]],
    delay: int,
) -> Rows:
    """Feed rows [0, count) through a script and then to the end; return the surviving output.

    `prepare(start, end)` gives the rows as Spark would and their greatest time. A row is read again
    when a crash has taken it away.
    """
    position = saved_position = 0
    watermark = saved_watermark = WATERMARK_MIN
    for step in script:
        end = min(count, position + step.rows)
        rows, newest = prepare(position, end)
        life.run(rows, watermark, barrier=step.barrier)
        position = end
        if newest is not None:
            watermark = max(watermark, newest - delay)
        if step.barrier:
            saved_position, saved_watermark = position, watermark
        if step.crash_to is not None:
            life.crash(step.crash_to)
            position, watermark = saved_position, saved_watermark
    rows, _ = prepare(position, count)
    life.run(rows, watermark)
    empty, _ = prepare(count, count)
    life.run(empty, WATERMARK_MAX, barrier=True)
    return life.output


__all__ = ["OperatorLife", "Step", "key_hash", "play", "steps"]
