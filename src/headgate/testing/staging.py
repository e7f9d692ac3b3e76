"""Epochs of a sink: staged in memory, ready to be published as often as a test wants."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headgate.connectors.base import Sink, StageContext
from headgate.core.checkpoint import StagedFile
from headgate.core.ids import Epoch, JobId, OperatorId, Subtask
from headgate.core.model import JsonValue

JOB = JobId("job_a")
OTHER_JOB = JobId("job_b")
SINK = OperatorId("sink_1")


@dataclass
class MemoryWriter:
    """A `StageWriter` that keeps what it is given."""

    subtask: int = 0
    epoch: int = 1
    # Distinguishes attempts of one task, and generations of one job.
    attempt: int = 7
    stored: dict[str, bytes] = field(default_factory=dict)

    def write(
        self, suffix: str, data: bytes | pa.Buffer, rows: int, extra: dict[str, Any] | None = None
    ) -> StagedFile:
        payload = bytes(data)
        number = len(self.stored)
        path = f"staging/{self.epoch}/{self.subtask:03}-{self.attempt}-{number}{suffix}"
        self.stored[path] = payload
        return StagedFile(
            path=path,
            bytes=len(payload),
            checksum=f"sha256:{hashlib.sha256(payload).hexdigest()}",
            rows=rows,
            subtask=Subtask(self.subtask),
            epoch=Epoch(self.epoch),
            extra=extra or {},
        )


@dataclass(frozen=True)
class StagedEpoch:
    """What a checkpoint holds of a sink, with the staged bytes beside it."""

    sink: Sink
    epoch: Epoch
    staged: list[StagedFile]
    commit: JsonValue
    # The sink's state after the epoch: what the next one is prepared with.
    state: JsonValue
    stored: dict[str, bytes]
    job: JobId = JOB

    def publish(self) -> None:
        self.sink.publish(self.job, self.epoch, self.staged, self.commit, self.read_staged)

    def read_staged(self, file: StagedFile) -> bytes:
        return self.stored[file.path]

    def by(self, sink: Sink) -> StagedEpoch:
        """Return the same epoch in the hands of another process's sink."""
        return replace(self, sink=sink)


def stage_epoch(
    sink: Sink,
    number: int,
    batches: Sequence[pa.RecordBatch],
    state: JsonValue = None,
    *,
    job: JobId = JOB,
    attempt: int = 7,
) -> StagedEpoch:
    """Stage an epoch, one subtask per batch, and prepare its commit."""
    shares = [[batch] for batch in batches]
    return stage_shares(sink, number, shares, state, job=job, attempt=attempt)


def stage_shares(
    sink: Sink,
    number: int,
    shares: Sequence[Sequence[pa.RecordBatch]],
    state: JsonValue = None,
    *,
    job: JobId = JOB,
    attempt: int = 7,
) -> StagedEpoch:
    """Stage an epoch, the batches of one subtask after those of another; prepare its commit."""
    staged: list[StagedFile] = []
    stored: dict[str, bytes] = {}
    for subtask, share in enumerate(shares):
        writer = MemoryWriter(subtask=subtask, epoch=number, attempt=attempt)
        context = StageContext(
            job=job,
            sink=SINK,
            epoch=Epoch(number),
            subtask=subtask,
            folder=f"staging/{number}/",
            name_prefix=f"{subtask:03}-{attempt}-",
        )
        staged += sink.stage(context, iter(share), writer)
        stored |= writer.stored
    commit, state = sink.prepare_commit(job, Epoch(number), staged, state)
    return StagedEpoch(sink, Epoch(number), staged, commit, state, stored, job)
