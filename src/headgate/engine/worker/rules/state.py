"""Everything a worker knows, as one value, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from headgate.core.checkpoint import (
    WATERMARK_MIN,
    BatchCut,
    EpochReplay,
    LoadingPlan,
    SinkCommit,
    StagedFile,
    TableState,
)
from headgate.core.ids import NO_EPOCH, Epoch, JobId, OperatorId
from headgate.core.messages import Barrier, Progress, Start
from headgate.core.model import JsonValue
from headgate.engine.worker.rules.actions import Acknowledge, Action
from headgate.engine.worker.rules.epoch import EpochLedger
from headgate.engine.worker.rules.facts import Place
from headgate.engine.worker.rules.pace import BatchPace
from headgate.engine.worker.rules.progress import first_progress
from headgate.engine.worker.rules.watermark import Watermark

# A sink's `prepare_commit`: deterministic and without effects, as its contract says.
PrepareCommit = Callable[
    [JobId, Epoch, Sequence[StagedFile], JsonValue], tuple[JsonValue, JsonValue]
]

# ---- where it stands -------------------------------------------------------------------------


@dataclass(frozen=True)
class Resuming:
    """Before new input: see `resume.py` for the order. `at` names what is being waited for."""

    at: Literal["beginning", "targets", "load", "publishes", "replays", "new_targets"]
    begun_ms: int = 0
    loaded_ms: int = 0
    published_ms: int = 0
    # The damaged epochs that are still to be run again, and how many cuts of the first are done.
    replays: tuple[EpochReplay, ...] = ()
    cuts_done: int = 0


@dataclass(frozen=True)
class Idle:
    """Nothing is to be done until a message comes, or the wait is over."""


@dataclass(frozen=True)
class Cutting:
    """The sources were asked where the next micro-batch ends."""


@dataclass(frozen=True)
class Running:
    """A micro-batch runs; with a barrier it is the last of its epoch."""

    cut: BatchCut
    barrier: Barrier | None


@dataclass(frozen=True)
class Draining:
    """It was told to end; publishes that have begun, or were asked for, come first."""


@dataclass(frozen=True)
class Over:
    """Nothing counts any more."""


Phase = Resuming | Idle | Cutting | Running | Draining | Over

# ---- what it knows ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Publishing:
    """What is to be published, oldest first; the first of it is being published."""

    queue: tuple[SinkCommit, ...] = ()
    # Sink -> the newest epoch that is published. Epochs are published in order.
    done: Mapping[OperatorId, Epoch] = field(default_factory=dict)

    def is_done(self, commit: SinkCommit) -> bool:
        return commit.epoch <= self.done.get(commit.operator, NO_EPOCH)

    def is_queued(self, commit: SinkCommit) -> bool:
        key = (commit.operator, commit.epoch)
        return any((queued.operator, queued.epoch) == key for queued in self.queue)


@dataclass(frozen=True)
class WorkerState:
    """One generation of one job."""

    start: Start
    prepare_commits: Mapping[OperatorId, PrepareCommit]
    phase: Phase
    positions: Mapping[OperatorId, JsonValue]
    watermark: Watermark
    ledger: EpochLedger
    pace: BatchPace
    # Windows up to here have been emitted: rows for them are late.
    emitted: int = WATERMARK_MIN
    # The durable tables as of the last micro-batch that left nothing else.
    tables: Mapping[Place, tuple[TableState, ...]] = field(default_factory=dict)
    # The micro-batches so far.
    batches: int = 0
    next_timer: int | None = None
    unflushed: bool = False
    publishing: Publishing = Publishing()
    # The barrier that waits for the next cut.
    barrier: Barrier | None = None
    # The last attempt that was cut, as (epoch, attempt), and what was said about it.
    acknowledged: tuple[Epoch, int] = (NO_EPOCH, 0)
    acknowledgement: Acknowledge | None = None
    # The last attempt that found nothing to cut.
    declined: tuple[Epoch, int] = (NO_EPOCH, 0)
    # Whether input is still read; not after the barrier of a final checkpoint.
    reading: bool = True
    stopping: bool = False
    told_finished: bool = False
    # How long the last wait without anything to do was.
    idle_ms: int = 0
    lag_rows: int | None = None
    lags: Mapping[OperatorId, Mapping[str, int]] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    @property
    def taken(self) -> tuple[Epoch, int]:
        """The last attempt that was taken up: acknowledged, declined or still running."""
        running = self.phase.barrier if isinstance(self.phase, Running) else None
        if running is not None:
            return (running.epoch, running.attempt)
        return max(self.acknowledged, self.declined)


@dataclass(frozen=True)
class WorkerStep:
    """What a fact leads to: the state after it, and what is to be done, in this order."""

    state: WorkerState
    actions: tuple[Action, ...] = ()

    def before(self, following: WorkerStep) -> WorkerStep:
        """Return both steps as one; `following` was taken from this one's state."""
        return replace(following, actions=self.actions + following.actions)


def first_positions(
    plan: LoadingPlan, initial: Mapping[OperatorId, Callable[[], JsonValue]]
) -> dict[OperatorId, JsonValue]:
    """Return where every source goes on; one of which the plan says nothing is asked."""
    positions: dict[OperatorId, JsonValue] = {}
    for source, begin in initial.items():
        known = plan.globals.get(source, {})
        positions[source] = known["position"] if "position" in known else begin()
    return positions


def first_state(
    start: Start,
    positions: Mapping[OperatorId, JsonValue],
    prepare_commits: Mapping[OperatorId, PrepareCommit],
) -> WorkerState:
    """Return what a worker knows when it is told what to run. `positions`: `first_positions`."""
    plan, cut = start.plan, start.plan.cut
    sources = tuple(operator.id for operator in start.graph.sources())
    known = {source: plan.globals.get(source, {}) for source in sources}
    return WorkerState(
        start=start,
        prepare_commits=prepare_commits,
        phase=Resuming(at="beginning", replays=plan.replays),
        positions=positions,
        watermark=Watermark.restored(
            sources,
            start.settings.source_idle_ms,
            cut.source_watermarks if cut else None,
            cut.watermark if cut else WATERMARK_MIN,
            finished=[source for source in sources if known[source].get("finished")],
        ),
        emitted=cut.emitted_watermark if cut else WATERMARK_MIN,
        ledger=EpochLedger(
            recorded=plan.checkpoint.epoch if plan.checkpoint else NO_EPOCH,
            sink_states={
                sink.id: plan.globals.get(sink.id, {}).get("state") for sink in start.graph.sinks()
            },
        ),
        pace=BatchPace.first(start.settings.max_batch_rows),
        progress=first_progress(start),
        tables={
            (load.operator, int(load.subtask)): load.tables for load in plan.subtasks if load.tables
        },
    )
