"""A worker's rules, fact by fact: what a test says happened, and what the rules said to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headgate.core.checkpoint import (
    CheckpointRef,
    EpochCut,
    EpochReplay,
    LoadingPlan,
    SinkCommit,
    StagedFile,
)
from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.messages import (
    Barrier,
    Commit,
    RunSettings,
    Start,
    WorkerMessage,
)
from headgate.core.model import JsonValue
from headgate.engine.worker.rules.actions import Action, CheckTargets, LoadState, PlanCut, Send
from headgate.engine.worker.rules.facts import (
    Begun,
    CutPlanned,
    Fact,
    Heard,
    PlannedCut,
    Published,
    RowsSeen,
    StateLoaded,
    TargetsChecked,
)
from headgate.engine.worker.rules.state import WorkerState, first_positions, first_state
from headgate.engine.worker.rules.step import step
from headgate.operators import SinkSpec, SourceSpec

JOB, GENERATION = JobId("job_1"), Generation(3)
LEFT, RIGHT, SINK = OperatorId("left"), OperatorId("right"), OperatorId("sink")
IDLE_MS = 60_000

GRAPH = PipelineGraph(
    operators=(
        *(
            Operator(id=o, spec=SourceSpec(table=o, connector="x", options={}, columns=()))
            for o in (LEFT, RIGHT)
        ),
        Operator(
            id=SINK, spec=SinkSpec(table="s", connector="x", options={}), inputs=(LEFT, RIGHT)
        ),
    )
)

A = TypeVar("A")


def plan(
    *,
    checkpoint: int | None = None,
    sink: dict[str, JsonValue] | None = None,
    pending: Sequence[SinkCommit] = (),
    replays: Sequence[EpochReplay] = (),
) -> LoadingPlan:
    return LoadingPlan(
        job=JOB,
        parallelism=1,
        checkpoint=None
        if checkpoint is None
        else CheckpointRef(generation=Generation(2), epoch=Epoch(checkpoint)),
        globals={} if sink is None else {SINK: sink},
        cut=None if checkpoint is None else EpochCut(batches=(), watermark=0),
        pending_commits=tuple(pending),
        replays=tuple(replays),
    )


def commit_of(epoch: int) -> SinkCommit:
    return SinkCommit(operator=SINK, epoch=Epoch(epoch), staged=(), commit=None)


def commit(epoch: int) -> Heard:
    sinks = (commit_of(epoch),)
    return Heard(Commit(generation=GENERATION, epoch=Epoch(epoch), sinks=sinks))


def barrier(
    epoch: int, attempt: int = 1, *, then_stop: bool = False, may_skip: bool = False
) -> Heard:
    return Heard(
        Barrier(
            generation=GENERATION,
            epoch=Epoch(epoch),
            attempt=attempt,
            then_stop=then_stop,
            may_skip=may_skip,
        )
    )


def cuts(
    ends: Mapping[OperatorId, int], known: Mapping[OperatorId, int] | None = None
) -> CutPlanned:
    seen = {source: RowsSeen(watermark) for source, watermark in (known or {}).items()}
    return CutPlanned(
        {
            source: PlannedCut(end=end, rows=1, known=seen.get(source))
            for source, end in ends.items()
        }
    )


def _count(
    job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
) -> tuple[JsonValue, JsonValue]:
    return {"epoch": int(epoch)}, {"after": int(epoch)}


@dataclass
class Life:
    """One worker. `now_ms` is its clock."""

    plan: LoadingPlan = field(default_factory=plan)
    now_ms: int = 1_000_000
    state: WorkerState = field(init=False)
    actions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        start = Start(
            job=JOB,
            generation=GENERATION,
            parallelism=1,
            graph=GRAPH,
            plan=self.plan,
            settings=RunSettings(state_url="", scratch_dir="", source_idle_ms=IDLE_MS),
        )
        self.state = first_state(
            start, first_positions(start.plan, {LEFT: int, RIGHT: int}), {SINK: _count}
        )

    def tell(self, fact: Fact, after_ms: int = 0) -> list[Action]:
        """Step one fact; return what is to be done."""
        self.now_ms += after_ms
        decided = step(self.state, fact, self.now_ms)
        self.state = decided.state
        self.actions.extend(decided.actions)
        return list(decided.actions)

    def begin(self) -> None:
        """Go through the resume, everything succeeding, up to the first look at the sources."""
        actions = self.tell(Begun())
        while not any(isinstance(action, PlanCut) for action in actions):
            last = actions[-1]
            if isinstance(last, CheckTargets):
                actions = self.tell(TargetsChecked())
            elif isinstance(last, LoadState):
                actions = self.tell(StateLoaded())
            else:
                return

    def publish(self, epoch: int) -> list[Action]:
        return self.tell(Published(commit_of(epoch)))

    def all(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    def sent(self) -> list[WorkerMessage]:
        return [action.message for action in self.all(Send)]
