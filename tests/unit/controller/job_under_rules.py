"""Jobs in every state, reached by the real rules, for tests of the pure core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from headgate.controller.rules.actions import (
    Action,
    KillWorkers,
    MarkCommitted,
    PrepareLoad,
    RecordCheckpoint,
    RunCleanup,
    SendToWorker,
)
from headgate.controller.rules.events import (
    ActionFailed,
    CheckpointRecorded,
    Compiled,
    Event,
    GenerationClaimed,
    LoadPlanned,
    MarkerWritten,
    RescaleRequested,
    RestartRequested,
    SlotsGranted,
    StopRequested,
    TakenUp,
    WorkerExited,
    WorkersKilled,
)
from headgate.controller.rules.job_facts import JobFacts, Lineage
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import Note
from headgate.controller.rules.state import JobState, next_deadline
from headgate.controller.rules.states.created import Created
from headgate.controller.rules.step import step
from headgate.core.checkpoint import (
    BatchCut,
    CheckpointRef,
    EpochCut,
    LoadingPlan,
    SinkCommit,
    SubtaskAck,
)
from headgate.core.errors import ErrorDomain, ErrorInfo, RetryHint
from headgate.core.ids import Epoch, Generation, OperatorId, Subtask, WorkerId
from headgate.core.messages import (
    Barrier,
    Commit,
    EpochCutDone,
    Heartbeat,
    Progress,
    Register,
    Restored,
    SinkPublished,
    SourcesFinished,
    SubtaskAcked,
    TaskFailed,
    WorkerStopped,
)
from tests.unit.controller.support import JOB, NEEDS, SINK, SOURCE

T = TypeVar("T")

CLAIMANT = "db/1/controller"
USER_ERROR = ErrorInfo(
    message="no such column", domain=ErrorDomain.USER, retry=RetryHint.NO_RETRY, code="sql"
)
STORAGE_ERROR = ErrorInfo(message="storage away", domain=ErrorDomain.EXTERNAL, code="storage")


@dataclass
class JobUnderRules:
    """One job under the real rules; the test says what happens, and sees what was asked for."""

    limits: Limits = field(default_factory=Limits)
    parallelism: int = 2
    now_ms: int = 1_000_000
    state: JobState = field(init=False)
    actions: list[Action] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    path: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        facts = JobFacts(
            job=JOB, limits=self.limits, parallelism=self.parallelism, entered_ms=self.now_ms
        )
        self.state = Created(facts=facts)

    # ---- the loop ----

    def say(self, event: Event, *, after_ms: int = 0) -> list[Action]:
        """Let an event happen; return what the rules want done."""
        self.now_ms += after_ms
        decided = step(self.state, event, self.now_ms)
        if decided.next.kind != self.state.kind:
            self.path.append(decided.next.kind)
            assert decided.reason, f"no reason for {self.state.kind} -> {decided.next.kind}"
        self.state = decided.next
        self.actions.extend(decided.actions)
        self.notes.extend(decided.notes)
        return list(decided.actions)

    def until_deadline(self) -> int:
        """Return the milliseconds until the state wants a `Tick`."""
        deadline_ms = next_deadline(self.state)
        assert deadline_ms is not None
        return max(0, deadline_ms - self.now_ms)

    # ---- words for common events ----

    @property
    def facts(self) -> JobFacts:
        return self.state.facts

    @property
    def generation(self) -> Generation:
        return self.state.facts.generation

    def take_up(self) -> list[Action]:
        return self.say(TakenUp(claimant=CLAIMANT))

    def compiled(self) -> list[Action]:
        return self.say(Compiled(turn=self.facts.turn, needs=NEEDS, fingerprint="f"))

    def load_planned(
        self, last: CheckpointRef | None = None, pending: tuple[SinkCommit, ...] = ()
    ) -> list[Action]:
        plan = LoadingPlan(
            job=JOB,
            checkpoint=last,
            parallelism=self.facts.parallelism,
            pending_commits=pending,
        )
        known = self.facts.last_epoch
        newest = last
        if newest is None and known > 0:
            newest = CheckpointRef(generation=Generation(1), epoch=known)
        lineage = Lineage(parent=last, previous=newest)
        return self.say(
            LoadPlanned(
                turn=self.facts.turn,
                plan=plan,
                lineage=lineage,
                fingerprint="f",
                identify_ms=1.0,
                prepare_ms=2.0,
            )
        )

    def slots_granted(self) -> list[Action]:
        return self.say(SlotsGranted(turn=self.facts.turn))

    def claimed(self, generation: int | None = None) -> list[Action]:
        number = self.generation + 1 if generation is None else generation
        return self.say(GenerationClaimed(turn=self.facts.turn, generation=Generation(number)))

    def registered(self) -> list[Action]:
        return self.say(
            Register(
                job=JOB,
                generation=self.generation,
                worker=WorkerId("w"),
                token="t",
                pid=1,
                host="h",
            )
        )

    def restored(self) -> list[Action]:
        return self.say(Restored(generation=self.generation, timings={"restore_ms": 1.0}))

    def heartbeat(self, *, batches: int = 1) -> list[Action]:
        return self.say(Heartbeat(generation=self.generation, progress=Progress(batches=batches)))

    def killed(self) -> list[Action]:
        return self.say(WorkersKilled(turn=self.facts.turn))

    def exited(self) -> list[Action]:
        return self.say(WorkerExited(generation=self.generation, exit_code=-9))

    def task_failed(self, error: ErrorInfo) -> list[Action]:
        return self.say(TaskFailed(generation=self.generation, error=error))

    def action_failed(self, error: ErrorInfo = STORAGE_ERROR) -> list[Action]:
        return self.say(ActionFailed(turn=self.facts.turn, doing="something", error=error))

    def barrier(self) -> Barrier:
        """Return the last barrier that was sent."""
        sent = [
            a.message
            for a in self.actions
            if isinstance(a, SendToWorker) and isinstance(a.message, Barrier)
        ]
        return sent[-1]

    def ack_all(self) -> list[Action]:
        """Acknowledge the last barrier completely."""
        barrier = self.barrier()
        acts: list[Action] = []
        for operator, subtask in all_subtasks(self.parallelism):
            acts += self.say(ack(barrier, operator, subtask))
        acts += self.say(cut_done(barrier))
        return acts

    def recorded(self) -> list[Action]:
        record = last_of(self.actions, RecordCheckpoint)
        return self.say(
            CheckpointRecorded(
                generation=record.generation, epoch=record.epoch, attempt=record.attempt
            )
        )

    def published(self) -> list[Action]:
        commit = last_commit(self.actions)
        acts: list[Action] = []
        for sink in commit.sinks:
            acts += self.say(
                SinkPublished(
                    generation=commit.generation, epoch=commit.epoch, operator=sink.operator
                )
            )
        return acts

    def marked(self) -> list[Action]:
        mark = last_of(self.actions, MarkCommitted)
        return self.say(MarkerWritten(generation=mark.generation, epoch=mark.epoch))

    def checkpoint(self) -> None:
        """Bring the checkpoint that was begun to its end."""
        self.ack_all()
        self.recorded()
        self.published()
        self.marked()

    def worker_stopped(self) -> list[Action]:
        return self.say(WorkerStopped(generation=self.generation))

    # ---- roads ----

    def to_compiling(self) -> JobUnderRules:
        self.take_up()
        return self

    def to_scheduling(self) -> JobUnderRules:
        self.to_compiling().compiled()
        return self

    def to_starting(self) -> JobUnderRules:
        self.to_scheduling().load_planned()
        self.slots_granted()
        self.claimed()
        return self

    def to_restoring(self) -> JobUnderRules:
        self.to_starting().registered()
        return self

    def to_running(self) -> JobUnderRules:
        self.to_restoring().restored()
        return self

    def to_recovering(self) -> JobUnderRules:
        self.to_running().exited()
        return self

    def to_running_again(self) -> JobUnderRules:
        """From recovering to running, whatever the road was before."""
        self.killed()
        if not isinstance(self.actions[-1], PrepareLoad):
            self.now_ms += self.until_deadline()
            self.say_tick()
        self.load_planned()
        self.compiled()
        self.slots_granted()
        self.claimed()
        self.registered()
        self.restored()
        return self

    def say_tick(self, *, after_ms: int = 0) -> list[Action]:
        from headgate.controller.rules.events import Tick

        return self.say(Tick(), after_ms=after_ms)


def all_subtasks(parallelism: int) -> list[tuple[OperatorId, int]]:
    return [(SOURCE, 0), *((SINK, subtask) for subtask in range(parallelism))]


def ack(barrier: Barrier, operator: OperatorId, subtask: int, **changes: object) -> SubtaskAcked:
    commit = {"commit": [1, 2]} if operator == SINK and subtask == 0 else {}
    message = {
        "generation": barrier.generation,
        "epoch": barrier.epoch,
        "attempt": barrier.attempt,
        "ack": SubtaskAck(
            operator=operator, subtask=Subtask(subtask), globals=commit, new_bytes=10, new_objects=1
        ),
    }
    return SubtaskAcked(**{**message, **changes})  # type: ignore[arg-type]


def cut_done(barrier: Barrier, *, rows: int = 5) -> EpochCutDone:
    batch = BatchCut(start={SOURCE: 0}, end={SOURCE: rows}, watermark=0, rows=rows)
    return EpochCutDone(
        generation=barrier.generation,
        epoch=barrier.epoch,
        attempt=barrier.attempt,
        cut=EpochCut(batches=(batch,), watermark=0),
    )


def last_of(actions: list[Action], kind: type[T]) -> T:
    return [action for action in actions if isinstance(action, kind)][-1]


def last_commit(actions: list[Action]) -> Commit:
    sent = [
        a.message for a in actions if isinstance(a, SendToWorker) and isinstance(a.message, Commit)
    ]
    return sent[-1]


def count(actions: list[Action], kind: type[Action]) -> int:
    return sum(isinstance(action, kind) for action in actions)


def every_state() -> dict[str, JobUnderRules]:
    """Return a job in every state, and in every phase of the states that have phases."""

    def stopped_with(event: Event) -> JobUnderRules:
        world = JobUnderRules().to_running()
        world.say(event)
        return world

    finishing = JobUnderRules().to_running()
    finishing.say(SourcesFinished(generation=finishing.generation))
    finished = JobUnderRules().to_running()
    finished.say(SourcesFinished(generation=finished.generation))
    finished.checkpoint()
    ending = JobUnderRules().to_running()
    ending.say(SourcesFinished(generation=ending.generation))
    ending.checkpoint()
    finished.worker_stopped()
    finished.killed()
    failing = JobUnderRules().to_running()
    failing.task_failed(USER_ERROR)
    failed = JobUnderRules().to_running()
    failed.task_failed(USER_ERROR)
    failed.killed()
    stopped = stopped_with(StopRequested(mode="force"))
    stopped.killed()
    waiting = JobUnderRules(limits=Limits(backoff_initial_ms=10_000)).to_recovering()
    waiting.killed()
    preparing = JobUnderRules(limits=Limits(backoff_initial_ms=0)).to_recovering()
    preparing.killed()
    collecting = JobUnderRules().to_running()
    collecting.say_tick(after_ms=collecting.limits.checkpoint_interval_ms)  # type: ignore[arg-type]
    cleaning = JobUnderRules(limits=Limits(cleanup_interval_ms=0)).to_running()
    cleaning.say_tick(after_ms=10_000)
    cleaning.checkpoint()
    assert count(cleaning.actions, RunCleanup) == 1
    assert count(finished.actions, KillWorkers) == 1
    return {
        "created": JobUnderRules(),
        "compiling": JobUnderRules().to_compiling(),
        "scheduling": JobUnderRules().to_scheduling(),
        "starting": JobUnderRules().to_starting(),
        "restoring": JobUnderRules().to_restoring(),
        "running": JobUnderRules().to_running(),
        "collecting": collecting,
        "cleaning": cleaning,
        "recovering": JobUnderRules().to_recovering(),
        "recovering, waiting": waiting,
        "recovering, preparing": preparing,
        "checkpoint_stopping": stopped_with(StopRequested(mode="checkpoint")),
        "stopping": stopped_with(StopRequested(mode="graceful")),
        "stopping by force": stopped_with(StopRequested(mode="force")),
        "stopped": stopped,
        "finishing": finishing,
        "finishing, ending the worker": ending,
        "finished": finished,
        "rescaling": stopped_with(RescaleRequested(parallelism=3)),
        "restarting": stopped_with(RestartRequested(mode="safe")),
        "restarting by force": stopped_with(RestartRequested(mode="forced")),
        "failing": failing,
        "failed": failed,
    }


EPOCH_ONE = Epoch(1)
