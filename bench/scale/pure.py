"""The pure parts at a size: what the controller, the worker and the driver do per checkpoint.

Without Spark and without storage. Every function returns figures of one job; processor time is
measured, so other work on the machine disturbs little.
"""

from __future__ import annotations

import gc
import pickle
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from bench.scale.world import JOB, SINK, SOURCE, Job, make_cut
from headgate.controller.applying import Change, apply_event
from headgate.controller.checkpoints.phases import Recording
from headgate.controller.rules.events import (
    CheckpointRecorded,
    CheckpointRequested,
    MarkerWritten,
)
from headgate.controller.rules.generation import begin_generation
from headgate.controller.rules.job_facts import JobFacts, Lineage, operator_needs
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.state import JobState, StoredJobState
from headgate.controller.rules.states.running import Running
from headgate.core.checkpoint import LoadingPlan, SubtaskAck
from headgate.core.ids import Epoch, Generation
from headgate.core.messages import (
    Barrier,
    Commit,
    ControllerMessage,
    EpochCutDone,
    RunSettings,
    SinkPublished,
    Start,
    SubtaskAcked,
    WorkerMessage,
)
from headgate.core.model import from_json, to_json
from headgate.engine.batch.context import PipelineState
from headgate.engine.batch.microbatch import _next_state
from headgate.engine.batch.reports import BufferFile, Reports, ReportsParam, SubtaskReport
from headgate.engine.batch.restore import restored_state
from headgate.engine.worker.rules.acknowledging import acknowledge
from headgate.engine.worker.rules.facts import SubtaskWork
from headgate.engine.worker.rules.state import first_state
from headgate.state.protocol.checkpoint_facts import encode_checkpoint
from headgate.state.protocol.records import OperatorCheckpointMetadata, decode
from headgate.state.recovery.loading import plan_subtasks

T = TypeVar("T")

CHECKPOINTS = 3
NOW_MS = 1_000_000


@dataclass
class Figures:
    """What was measured of one job, by name, in the order of measuring."""

    job: Job
    values: dict[str, float] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        self.values[name] = value

    def timed(self, name: str, call: Callable[[], T]) -> T:
        """Note the milliseconds of processor time that a call takes."""
        gc.collect()
        gc.disable()
        try:
            began = time.thread_time()
            answer = call()
            self.values[name] = (time.thread_time() - began) * 1e3
        finally:
            gc.enable()
        return answer


def measure(job: Job) -> Figures:
    figures = Figures(job)
    acks = job.acks(1)
    figures.note("acknowledgements", len(acks))
    _messages(figures, acks)
    _rules(figures)
    plan = _records(figures)
    _start(figures, plan)
    _worker(figures, plan)
    _driver(figures, plan)
    _memory(figures)
    return figures


# ---- the controller --------------------------------------------------------------------------


def _acked(ack: SubtaskAck, epoch: int = 1) -> SubtaskAcked:
    return SubtaskAcked(generation=Generation(1), epoch=Epoch(epoch), attempt=1, ack=ack)


def _messages(figures: Figures, acks: tuple[SubtaskAck, ...]) -> None:
    said = [_acked(ack) for ack in acks]
    lines = figures.timed("acks, encode ms", lambda: [to_json(message) for message in said])
    figures.note("acks, bytes", sum(len(line) + 1 for line in lines))
    figures.timed("acks, decode ms", lambda: [from_json(WorkerMessage, line) for line in lines])


class _Kept:
    """Counts what would be written to the database."""

    def __init__(self) -> None:
        self.saves = 0
        self.state_bytes = 0
        self.note_bytes = 0

    def __call__(self, change: Change) -> None:
        self.saves += 1
        self.state_bytes += len(to_json(change.stored, StoredJobState))
        self.note_bytes += sum(len(to_json(note)) for note in change.notes)


def _rules(figures: Figures) -> None:
    """Take several checkpoints through the rules, as the runner does."""
    job, kept = figures.job, _Kept()
    state: JobState = _running(job)
    said = [[_acked(ack, epoch) for ack in job.acks(epoch)] for epoch in range(1, CHECKPOINTS + 1)]
    spent = {"acks": 0.0, "rest": 0.0}

    def apply(event: Any, name: str = "rest") -> None:
        nonlocal state
        began = time.thread_time()
        applied = apply_event(state, event, NOW_MS, kept)
        spent[name] += time.thread_time() - began
        state = applied.state
        for action in applied.actions:
            message = getattr(action, "message", None)
            if isinstance(message, Commit):
                figures.note("commit, bytes", len(to_json(message)))

    gc.collect()
    gc.disable()
    for number, messages in enumerate(said, 1):
        generation, epoch = Generation(1), Epoch(number)
        apply(CheckpointRequested())
        for message in messages:
            apply(message, "acks")
        cut = EpochCutDone(generation=generation, epoch=epoch, attempt=1, cut=make_cut(number))
        apply(cut)
        assert isinstance(state, Running)
        assert isinstance(state.running.coordinator.phase, Recording)
        apply(CheckpointRecorded(generation=generation, epoch=epoch, attempt=1))
        apply(SinkPublished(generation=generation, epoch=epoch, operator=SINK))
        apply(MarkerWritten(generation=generation, epoch=epoch))
    gc.enable()
    assert state.facts.committed_epoch == CHECKPOINTS
    count = len(said[0]) * CHECKPOINTS
    figures.note("rules, us per ack", spent["acks"] / count * 1e6)
    figures.note("rules, ms for the rest", spent["rest"] / CHECKPOINTS * 1e3)
    figures.note("database, writes", kept.saves / CHECKPOINTS)
    figures.note("database, bytes of state", kept.state_bytes / CHECKPOINTS)
    figures.note("database, bytes of notes", kept.note_bytes / CHECKPOINTS)


def _running(job: Job) -> JobState:
    # Nothing but what is asked for: no checkpoint by time, no cleanup in between.
    limits = Limits(checkpoint_interval_ms=10**9, cleanup_every_checkpoints=10**9)
    facts = JobFacts(job=JOB, limits=limits, parallelism=job.subtasks, generation=Generation(1))
    running = begin_generation(
        facts,
        needs=operator_needs(job.graph),
        parallelism=job.subtasks,
        lineage=Lineage(),
        unmarked=None,
        now_ms=NOW_MS,
    )
    return Running(facts=facts, running=running)


def _records(figures: Figures) -> LoadingPlan:
    """Encode a checkpoint, decode it, and plan who loads what."""
    job = figures.job
    facts = job.facts(1)
    encoded = figures.timed("metadata, encode ms", lambda: encode_checkpoint(facts))
    figures.note("metadata, bytes", sum(len(data) for _, data in encoded.metadata))
    figures.note("manifest, bytes", len(encoded.manifest_data))

    def read() -> dict[Any, OperatorCheckpointMetadata]:
        found = (
            decode(OperatorCheckpointMetadata, data, job=JOB, path=path)
            for path, data in encoded.metadata
        )
        return {entry.operator: entry for entry in found}

    metadata = figures.timed("metadata, decode ms", read)
    plans = {}
    for name, wanted in (("same", 1.0), ("x 2", 2.0), ("x 1.2", 1.2)):
        parallelism = round(job.subtasks * wanted)
        plans[name] = figures.timed(
            f"plan, {name}, ms", partial(plan_subtasks, metadata, parallelism)
        )
        runs = sum(len(table.runs) for load in plans[name] for table in load.tables)
        figures.note(f"plan, {name}, runs", runs)
    return LoadingPlan(
        job=JOB,
        parallelism=job.subtasks,
        subtasks=plans["same"],
        globals={SOURCE: {"position": 1, "finished": False}},
        cut=make_cut(1),
    )


def _start(figures: Figures, plan: LoadingPlan) -> None:
    start = _start_message(figures.job, plan)
    line = figures.timed("start, encode ms", lambda: to_json(start))
    figures.note("start, bytes", len(line))
    figures.timed("start, decode ms", lambda: from_json(ControllerMessage, line))


def _start_message(job: Job, plan: LoadingPlan) -> Start:
    return Start(
        job=JOB,
        generation=Generation(2),
        parallelism=job.subtasks,
        graph=job.graph,
        plan=plan,
        settings=RunSettings(state_url="memory://x", scratch_dir="/scratch"),
    )


# ---- the worker ------------------------------------------------------------------------------


def _worker(figures: Figures, plan: LoadingPlan) -> None:
    """Acknowledge a barrier, as the worker's rules do after its micro-batch."""
    job = figures.job
    state = first_state(_start_message(job, plan), {SOURCE: 1}, {SINK: lambda *_: (None, None)})
    staged = {SINK: tuple(job.staged(subtask, 1) for subtask in range(job.subtasks))}
    cut = make_cut(1).batches[0]
    ledger = state.ledger.with_batch(cut, staged)
    ready = replace(state, ledger=ledger)
    works = {
        (operator, subtask): SubtaskWork(timings={"snapshot_ms": 1.0, "upload_ms": 2.0})
        for operator in (*job.stateful, SINK)
        for subtask in range(job.subtasks)
    }
    barrier = Barrier(generation=Generation(2), epoch=Epoch(2), attempt=1)
    figures.timed("worker, acknowledge ms", lambda: acknowledge(ready, barrier, works))


# ---- the driver and its tasks ----------------------------------------------------------------


def _driver(figures: Figures, plan: LoadingPlan) -> None:
    """Merge the reports of a micro-batch, and pack what its tasks are given."""
    job = figures.job
    state = figures.timed("driver, first state ms", lambda: restored_state(plan))
    parts: list[Reports] = [
        {place: SubtaskReport(operator=place[0], subtask=place[1], batch=1, tables=versions)}
        for place, versions in state.tables.items()
    ]
    parts += [
        {(SINK, n): SubtaskReport(operator=SINK, subtask=n, batch=1, buffered=(_buffer(n, 1),))}
        for n in range(job.subtasks)
    ]
    param = ReportsParam()

    def merged() -> Reports:
        found: Reports = {}
        for part in parts:
            found = param.addInPlace(found, part)
        return found

    reports = figures.timed("driver, merge reports ms", merged)
    buffers = {SINK: tuple(_buffer(n, 0) for n in range(job.subtasks))}
    before = PipelineState(state.tables, {}, buffers)
    figures.timed("driver, next state ms", lambda: _next_state(before, reports))
    figures.timed(
        "driver, versions ms", lambda: [before.versions(operator) for operator in job.stateful]
    )
    packed = pickle.dumps(before.versions(job.stateful[0]))
    figures.note("task, versions bytes", len(packed))
    figures.timed("task, unpickle ms", lambda: pickle.loads(packed))
    figures.note("task, buffers bytes", len(pickle.dumps(before.buffers[SINK])))


def _buffer(subtask: int, batch: int) -> BufferFile:
    path = f"/scratch/buffer-{SINK}-{subtask:03}-{batch:06}-12345.arrow"
    return BufferFile(path, 1_000, 10, subtask)


# ---- memory ----------------------------------------------------------------------------------


def _memory(figures: Figures) -> None:
    """Note what one subtask weighs: as decoded by the controller, and in a decoded plan."""
    small = Job(1, 100, figures.job.runs)
    places = small.operators * small.subtasks
    lines = [to_json(_acked(ack)) for ack in small.acks(1) if ack.operator in small.stateful]
    weighed = _weight(lambda: [from_json(WorkerMessage, line) for line in lines])
    figures.note("memory, bytes per ack", weighed / places)


def _weight(make: Callable[[], object]) -> int:
    make()
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        del kept
    finally:
        tracemalloc.stop()
    return size
