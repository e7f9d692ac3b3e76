"""What a micro-batch is given: plain values, pickled into the tasks.

A micro-batch is a pure function (state version, source ranges, watermark) -> (new state version,
staged output). Everything on the left side is here; files named here are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from headgate.core.checkpoint import BatchCut
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.engine.batch.reports import BufferFile
from headgate.state.tables.version import TableVersion

T = TypeVar("T")


@dataclass(frozen=True)
class BatchContext:
    """The part that every task sees."""

    job: JobId
    generation: Generation
    epoch: Epoch
    # Counts the micro-batches of the generation: names of scratch files depend on it.
    batch: int
    parallelism: int
    # Windows whose end is at or below `watermark` are emitted by this micro-batch; those at or
    # below `emitted_watermark` were emitted by earlier ones, so rows for them are late. The rows
    # of the micro-batch itself may lie before its `watermark`, if their source knew them: so
    # what they meet in state is expired by `emitted_watermark`.
    watermark: int
    emitted_watermark: int
    # The last micro-batch of its epoch: runs and staged output become durable.
    barrier: bool
    # A replay of an epoch whose output is already published: compute, but stage nothing.
    suppress_output: bool
    state_url: str
    # The folder of the changes between barriers, on storage that all executors share; None = they
    # share nothing, so the changes are in the state store.
    scratch_dir: str | None
    # The folder of copies of runs, on every host; None = one of the executor's own.
    cache_dir: str | None
    cache_bytes_max: int
    verify_checksums: bool


@dataclass(frozen=True)
class PipelineState:
    """All state versions of the job, as the driver carries them from batch to batch."""

    tables: dict[tuple[OperatorId, int], tuple[TableVersion, ...]] = field(default_factory=dict)
    timers: dict[tuple[OperatorId, int], int] = field(default_factory=dict)
    # Sink -> output buffered since the last barrier.
    buffers: dict[OperatorId, tuple[BufferFile, ...]] = field(default_factory=dict)
    # On a cluster: the host on which each subtask ran last.
    homes: dict[tuple[OperatorId, int], str] = field(default_factory=dict)

    def versions(self, operator: OperatorId) -> dict[int, tuple[TableVersion, ...]]:
        return self._tables_by_operator.get(operator, {})

    def homes_of(self, operator: OperatorId) -> dict[int, str]:
        return self._homes_by_operator.get(operator, {})

    # Grouped once: a plan asks for each of its operators.

    @cached_property
    def _tables_by_operator(self) -> dict[OperatorId, dict[int, tuple[TableVersion, ...]]]:
        return _by_operator(self.tables)

    @cached_property
    def _homes_by_operator(self) -> dict[OperatorId, dict[int, str]]:
        return _by_operator(self.homes)

    def next_timer(self) -> int | None:
        """Return the earliest time at which some subtask has something to emit."""
        return min(self.timers.values(), default=None)


def _by_operator(by_place: Mapping[tuple[OperatorId, int], T]) -> dict[OperatorId, dict[int, T]]:
    grouped: dict[OperatorId, dict[int, T]] = {}
    for (operator, subtask), value in by_place.items():
        grouped.setdefault(operator, {})[subtask] = value
    return grouped


@dataclass(frozen=True)
class BatchRequest:
    """One micro-batch to run."""

    context: BatchContext
    cut: BatchCut
