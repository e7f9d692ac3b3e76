"""A job of any size as plain data: its graph, and what its subtasks say at a barrier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headgate.core.checkpoint import (
    BatchCut,
    CheckpointRef,
    EpochCut,
    RunRef,
    StagedFile,
    SubtaskAck,
    SubtaskTimings,
    TableState,
)
from headgate.core.graph import Operator, PipelineGraph, Tumble
from headgate.core.ids import Epoch, Generation, JobId, OperatorId, Subtask
from headgate.core.ports import ObjectStore
from headgate.operators import SinkSpec, SourceSpec, WindowAggregateSpec
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.tables.rows import table_schema
from headgate.state.tables.version import encode_schema

JOB = JobId("scale")
SOURCE, SINK = OperatorId("source"), OperatorId("sink")
TABLES = ("panes", "totals")
# What stands for the bytes of a file: sizes are compared on recovery, so it is the same for all.
CONTENT = b"PAR1"
CHECKSUM = "sha256:" + "0123456789abcdef" * 4

SCHEMA = encode_schema(
    table_schema(
        pa.schema(
            [
                ("_hash", pa.int32()),
                ("_time", pa.int64()),
                ("shop", pa.string()),
                ("region", pa.string()),
                ("orders", pa.int64()),
                ("total", pa.int64()),
                ("largest", pa.float64()),
            ]
        )
    )
)


@dataclass(frozen=True)
class Job:
    """So many stateful operators of two tables each, between one source and one sink."""

    operators: int
    subtasks: int
    runs: int

    @property
    def name(self) -> str:
        return f"{self.operators} x {self.subtasks:,}, {self.runs} runs"

    @property
    def stateful(self) -> tuple[OperatorId, ...]:
        return tuple(OperatorId(f"window_{n:02}") for n in range(self.operators))

    @cached_property
    def graph(self) -> PipelineGraph:
        source = Operator(
            id=SOURCE, spec=SourceSpec(table="t", connector="impulse", options={}, columns=())
        )
        windows = tuple(
            Operator(
                id=name,
                spec=WindowAggregateSpec(window=Tumble(width_us=10), keys=(), outputs=()),
                inputs=(SOURCE,),
            )
            for name in self.stateful
        )
        sink = Operator(
            id=SINK,
            spec=SinkSpec(table="o", connector="blackhole", options={}),
            inputs=self.stateful,
        )
        return PipelineGraph(operators=(source, *windows, sink))

    def acks(self, epoch: int, generation: int = 1) -> tuple[SubtaskAck, ...]:
        """Return what all subtasks say at a barrier: their newest run is of this epoch."""
        position = {"position": epoch, "finished": False}
        source = SubtaskAck(operator=SOURCE, subtask=Subtask(0), globals=dict(position))
        states = (
            self._state_ack(operator, subtask, epoch, generation)
            for operator in self.stateful
            for subtask in range(self.subtasks)
        )
        sinks = (self._sink_ack(subtask, epoch, generation) for subtask in range(self.subtasks))
        return (source, *states, *sinks)

    def tables(
        self, operator: OperatorId, subtask: int, epoch: int, generation: int = 1
    ) -> tuple[TableState, ...]:
        return tuple(
            TableState(
                name=table,
                kind="time",
                schema=SCHEMA,
                runs=tuple(
                    self._run(operator, table, subtask, epoch + n, generation)
                    for n in range(1 - self.runs, 1)
                ),
            )
            for table in TABLES
        )

    def _run(
        self, operator: OperatorId, table: str, subtask: int, epoch: int, generation: int
    ) -> RunRef:
        # The hashes of a subtask are those with its remainder.
        highest = (2**31 - 1 - subtask) // self.subtasks * self.subtasks + subtask
        return RunRef(
            path=layout.run(generation, operator, table, epoch + 100, subtask, "000001-12345"),
            bytes=len(CONTENT),
            checksum=CHECKSUM,
            rows=1_000,
            min_hash=subtask - self.subtasks * (2**31 // self.subtasks),
            max_hash=highest,
            min_time=1_700_000_000_000_000,
            max_time=1_700_000_010_000_000,
            first_epoch=Epoch(epoch + 100),
            last_epoch=Epoch(epoch + 100),
        )

    def _state_ack(
        self, operator: OperatorId, subtask: int, epoch: int, generation: int
    ) -> SubtaskAck:
        return SubtaskAck(
            operator=operator,
            subtask=Subtask(subtask),
            tables=self.tables(operator, subtask, epoch, generation),
            timings=SubtaskTimings(alignment_ms=12.5, snapshot_ms=34.25, upload_ms=56.125),
            new_objects=len(TABLES),
            new_bytes=len(TABLES) * len(CONTENT),
        )

    def staged(self, subtask: int, epoch: int, generation: int = 1) -> StagedFile:
        folder = layout.staging_folder(generation, SINK, epoch + 100)
        return StagedFile(
            path=f"{folder}{subtask:03}-000001-12345-0.parquet",
            bytes=len(CONTENT),
            checksum=CHECKSUM,
            rows=1_000,
            subtask=Subtask(subtask),
            epoch=Epoch(epoch + 100),
        )

    def _sink_ack(self, subtask: int, epoch: int, generation: int) -> SubtaskAck:
        return SubtaskAck(
            operator=SINK,
            subtask=Subtask(subtask),
            staged=(self.staged(subtask, epoch, generation),),
            globals={"commit": None, "state": epoch} if subtask == 0 else {},
            new_objects=1,
            new_bytes=len(CONTENT),
        )

    def facts(self, epoch: int, generation: int = 1) -> CheckpointFacts:
        """Return a whole checkpoint."""
        before = CheckpointRef(generation=Generation(generation), epoch=Epoch(epoch - 1))
        return CheckpointFacts(
            job=JOB,
            generation=Generation(generation),
            epoch=Epoch(epoch),
            attempt=1,
            parallelism=self.subtasks,
            fingerprint=self.graph.fingerprint(),
            kinds={o.id: o.spec.kind for o in self.graph.checkpointed()},
            parent=before if epoch > 1 else None,
            cut=make_cut(epoch),
            acks=self.acks(epoch, generation),
            created_ms=1_000,
        )

    def write_files(self, store: ObjectStore, facts: CheckpointFacts) -> int:
        """Write the runs and the staged output that a checkpoint names; return how many."""
        paths = {run.path for ack in facts.acks for table in ack.tables for run in table.runs}
        paths.update(file.path for ack in facts.acks for file in ack.staged)
        for path in paths:
            store.put(path, CONTENT)
        return len(paths)


def make_cut(epoch: int) -> EpochCut:
    batch = BatchCut(start={SOURCE: epoch - 1}, end={SOURCE: epoch}, watermark=epoch, rows=5)
    return EpochCut(batches=(batch,), watermark=epoch, source_watermarks={SOURCE: epoch})
