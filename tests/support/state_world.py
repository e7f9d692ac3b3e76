"""What the tests of the state layer share: a store in a dict, one that breaks, and a small job."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TypeVar

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
from headgate.core.ids import NO_GENERATION, Epoch, Generation, JobId, OperatorId, Subtask
from headgate.core.model import JsonValue
from headgate.core.ports import ObjectStore
from headgate.operators import SinkSpec, SourceSpec, WindowAggregateSpec
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.protocol.writes import (
    AlreadyRecorded,
    Recorded,
    Stale,
    claim_generation,
    newest_claim,
    write_checkpoint,
    write_committed,
)
from headgate.state.recovery.backend import LoadPrepared, NoCheckpoint, StateBackend
from tests.support.stores import Crash, DictStore, FailingStore, crash, unavailable

__all__ = ["Crash", "DictStore", "FailingStore", "crash", "unavailable"]

T = TypeVar("T")

JOB = JobId("job_1")
SOURCE, WINDOW, SINK = OperatorId("src"), OperatorId("win"), OperatorId("out")


def checksum(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_graph(*, window: str = WINDOW, sink: str = SINK, source: str = SOURCE) -> PipelineGraph:
    return PipelineGraph(
        operators=(
            Operator(
                id=OperatorId(source),
                spec=SourceSpec(table="t", connector="files", options={}, columns=()),
            ),
            Operator(
                id=OperatorId(window),
                spec=WindowAggregateSpec(window=Tumble(width_us=10), keys=(), outputs=()),
                inputs=(OperatorId(source),),
            ),
            Operator(
                id=OperatorId(sink),
                spec=SinkSpec(table="o", connector="files", options={}),
                inputs=(OperatorId(window),),
            ),
        )
    )


class Writer:
    """One generation of the job: writes runs and staged files, acknowledges, records, commits.

    Its state table has one run per subtask and epoch; the oldest run is dropped when there are
    more than three, as compaction would.
    """

    def __init__(
        self,
        store: ObjectStore,
        generation: Generation,
        prepared: LoadPrepared | NoCheckpoint,
        *,
        parallelism: int = 2,
        graph: PipelineGraph | None = None,
    ) -> None:
        self.store = store
        self.generation = generation
        self.parallelism = parallelism
        self.graph = graph or make_graph()
        self.parent = prepared.checkpoint if isinstance(prepared, LoadPrepared) else None
        self.previous = prepared.newest
        self.replayed: tuple[Epoch, ...] = ()
        self.runs_max = 3
        self.runs: dict[int, tuple[RunRef, ...]] = {}
        if isinstance(prepared, LoadPrepared):
            self.replayed = tuple(replay.epoch for replay in prepared.plan.replays)
            for subtask in range(parallelism):
                for table in prepared.plan.load(WINDOW, subtask):
                    self.runs[subtask] = table.runs

    @property
    def epoch(self) -> Epoch:
        return Epoch(1 + (0 if self.previous is None else self.previous.epoch))

    def facts(self, attempt: int = 1, created_ms: int = 1_000) -> CheckpointFacts:
        """Write the files of the next checkpoint; return what is to be recorded."""
        acks = [SubtaskAck(operator=SOURCE, subtask=Subtask(0), globals={"position": self.epoch})]
        for subtask in range(self.parallelism):
            acks.append(self._window_ack(subtask, attempt))
            acks.append(self._sink_ack(subtask, attempt))
        return CheckpointFacts(
            job=JOB,
            generation=self.generation,
            epoch=self.epoch,
            attempt=attempt,
            parallelism=self.parallelism,
            fingerprint=self.graph.fingerprint(),
            kinds={o.id: o.spec.kind for o in self.graph.checkpointed()},
            parent=self.parent,
            replayed=self.replayed,
            previous=self.previous,
            cut=make_cut(self.epoch),
            acks=tuple(acks),
            created_ms=created_ms,
        )

    def record(self, facts: CheckpointFacts) -> Recorded | AlreadyRecorded | Stale:
        outcome = write_checkpoint(self.store, facts)
        if not isinstance(outcome, Stale):
            self.parent = self.previous = outcome.record.ref
            self.replayed = ()
            self.runs = {
                ack.subtask: ack.tables[0].runs for ack in facts.acks if ack.operator == WINDOW
            }
        return outcome

    def checkpoint(self, *, commit: bool = True) -> CheckpointRef:
        outcome = self.record(self.facts())
        assert isinstance(outcome, Recorded), outcome
        if commit:
            write_committed(self.store, JOB, outcome.record.ref)
        return outcome.record.ref

    def _window_ack(self, subtask: int, attempt: int) -> SubtaskAck:
        path = layout.run(self.generation, WINDOW, "w", self.epoch, subtask, f"a{attempt}")
        data = f"run {path}".encode()
        self.store.put(path, data)
        run = RunRef(
            path=path,
            bytes=len(data),
            checksum=checksum(data),
            rows=10,
            min_hash=-100,
            max_hash=100,
            first_epoch=self.epoch,
            last_epoch=self.epoch,
        )
        runs = (*self.runs.get(subtask, ()), run)[-self.runs_max :]
        table = TableState(name="w", kind="keyed", schema="", runs=runs)
        return SubtaskAck(
            operator=WINDOW,
            subtask=Subtask(subtask),
            tables=(table,),
            new_objects=1,
            new_bytes=len(data),
        )

    def _sink_ack(self, subtask: int, attempt: int) -> SubtaskAck:
        folder = layout.staging_folder(self.generation, SINK, self.epoch)
        path = f"{folder}{subtask}-{attempt}.json"
        data = f"staged {path}".encode()
        self.store.put(path, data)
        staged = StagedFile(
            path=path,
            bytes=len(data),
            checksum=checksum(data),
            rows=3,
            subtask=Subtask(subtask),
            epoch=self.epoch,
        )
        values: dict[str, JsonValue] = {}
        if subtask == 0:
            values = {"commit": f"commit {self.epoch}", "state": self.epoch}
        return SubtaskAck(operator=SINK, subtask=Subtask(subtask), staged=(staged,), globals=values)


def make_cut(epoch: int) -> EpochCut:
    batch = BatchCut(start={SOURCE: epoch - 1}, end={SOURCE: epoch}, watermark=epoch, rows=5)
    return EpochCut(batches=(batch,), watermark=epoch, source_watermarks={SOURCE: epoch})


def start(
    store: ObjectStore,
    claimant: str,
    *,
    parallelism: int = 2,
    prepared: LoadPrepared | NoCheckpoint | None = None,
) -> Writer:
    """Recover the job as a controller would, and return the writer of the new generation."""
    found = prepared or StateBackend(store, JOB).prepare_checkpoint_load(
        parallelism=parallelism, graph=make_graph()
    )
    base = found.checkpoint if isinstance(found, LoadPrepared) else None
    # What a generation ignores, all later ones ignore.
    _, before = newest_claim(store, JOB)
    generation = claim_generation(
        store,
        JOB,
        claimant=claimant,
        base=base,
        parallelism=parallelism,
        now_ms=5,
        ignore_before=NO_GENERATION if before is None else before.ignore_before,
    )
    return Writer(store, generation, found, parallelism=parallelism)


def with_other_facts(facts: CheckpointFacts) -> CheckpointFacts:
    """The same checkpoint as another controller may see it: other clock, other timings."""
    timings = SubtaskTimings(upload_ms=12.5)
    return replace(
        facts,
        created_ms=facts.created_ms + 1,
        acks=tuple(replace(ack, timings=timings) for ack in facts.acks),
    )
