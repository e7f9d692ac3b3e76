"""A generation that runs: its worker is watched and its checkpoints are coordinated.

Shared by every state that has a running worker, so that failure is noticed in all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from headgate.controller.checkpoints import advance
from headgate.controller.checkpoints import coordinator as rules
from headgate.controller.checkpoints.coordinator import Decided, GenerationView
from headgate.controller.checkpoints.phases import Coordinator, Idle, Saving
from headgate.controller.rules.actions import Action, MarkCommitted, RunCleanup
from headgate.controller.rules.claimant import may_claim_back
from headgate.controller.rules.events import (
    ActionResult,
    AttemptTaken,
    CheckpointRecorded,
    CheckpointRequested,
    CheckpointSuperseded,
    Command,
    Event,
    MarkerFailed,
    MarkerWritten,
    RecordFailed,
    SavepointFailed,
    SavepointRequested,
    SavepointWritten,
    TakenUp,
    Tick,
    WorkerExited,
)
from headgate.controller.rules.job_facts import JobFacts, Lineage, OperatorNeed
from headgate.controller.rules.notes import Note, SavepointNote
from headgate.controller.rules.recovery_clock import work_resumed
from headgate.core.errors import ErrorDomain, ErrorInfo, RetryHint
from headgate.core.ids import Epoch, Generation
from headgate.core.messages import (
    EpochCutDone,
    ExecutorsChanged,
    Heartbeat,
    NothingToCheckpoint,
    Register,
    Restored,
    SinkPublished,
    SourcesFinished,
    SubtaskAcked,
    TaskFailed,
    WorkerEvent,
    WorkerStopped,
)
from headgate.core.model import model
from headgate.core.space import NO_SPACE, log_says_no_space, no_space

# Of a dead worker's log, what is kept with the error.
LOG_CHARACTERS_MAX = 4_000


@model
class RunningGeneration:
    """The generation under way."""

    generation: Generation
    # Its own; what a person wants may have changed since.
    parallelism: int
    needs: tuple[OperatorNeed, ...]
    coordinator: Coordinator
    since_ms: int
    last_heard_ms: int
    # The newest epoch of an earlier generation whose publish this one completed. A marker speaks
    # for all epochs before it, so one is enough, and the next checkpoint's makes up for its loss.
    unmarked: Epoch | None = None


@model
class GenerationStep:
    """The generation after an event. `failure` means that it is over."""

    facts: JobFacts
    running: RunningGeneration
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    failure: ErrorInfo | None = None


def view_of(facts: JobFacts, running: RunningGeneration) -> GenerationView:
    return GenerationView(
        generation=running.generation,
        parallelism=running.parallelism,
        needs=running.needs,
        limits=facts.limits,
        cleaning=facts.cleaning_since_ms is not None,
        cleanup_unfinished=facts.cleanup_unfinished,
        restart_cost_ms=facts.restart_cost_ms,
    )


def begin_generation(
    facts: JobFacts,
    *,
    needs: tuple[OperatorNeed, ...],
    parallelism: int,
    lineage: Lineage,
    unmarked: Epoch | None,
    now_ms: int,
) -> RunningGeneration:
    """Return the generation that has just been restored."""
    return RunningGeneration(
        generation=facts.generation,
        parallelism=parallelism,
        needs=needs,
        coordinator=rules.begin(lineage=lineage, now_ms=now_ms, limits=facts.limits),
        since_ms=now_ms,
        last_heard_ms=now_ms,
        unmarked=unmarked,
    )


def generation_deadline(facts: JobFacts, running: RunningGeneration) -> int:
    """Return when `advance_generation` must see a `Tick` at the latest."""
    deadlines = [
        running.last_heard_ms + facts.limits.heartbeat_timeout_ms,
        rules.next_deadline(running.coordinator, view_of(facts, running)),
        running.since_ms + facts.limits.healthy_ms if facts.restarts_used else None,
    ]
    return min(at for at in deadlines if at is not None)


def advance_generation(
    facts: JobFacts, running: RunningGeneration, event: Event, now_ms: int
) -> GenerationStep:
    """Apply an event, then do what has become due."""
    if now_ms >= running.since_ms + facts.limits.healthy_ms:
        facts = replace(facts, restarts_used=0)
    step = _advance(facts, running, event, now_ms)
    if step.failure is None:
        return step
    lost = unfulfilled(step.running, "the job failed before it was complete")
    return replace(step, notes=(*step.notes, *lost))


def _advance(
    facts: JobFacts, running: RunningGeneration, event: Event, now_ms: int
) -> GenerationStep:
    broken = _failure_in(facts, running, event)
    if broken is not None:
        return GenerationStep(facts=facts, running=running, failure=broken)
    facts, running, resumed = _heard(facts, running, event, now_ms)
    decided = _decide(facts, running, event, now_ms)
    first = _take(facts, running, decided)
    if first.failure is not None:
        return replace(first, notes=(*resumed, *first.notes))
    if isinstance(event, MarkerWritten):
        committed = max(first.facts.committed_epoch, event.epoch)
        first = replace(first, facts=replace(first.facts, committed_epoch=committed))
    due = _due(first.facts, first.running, now_ms)
    return replace(
        due,
        actions=(*first.actions, *due.actions),
        notes=(*resumed, *first.notes, *due.notes),
    )


def unfulfilled(running: RunningGeneration, why: str) -> tuple[Note, ...]:
    """Return what to tell those whose savepoints this generation will not make."""
    phase = running.coordinator.phase
    flying = () if isinstance(phase, Idle) else phase.checkpoint.savepoints
    if isinstance(phase, Saving):
        flying = phase.names
    return tuple(
        SavepointNote(
            name=name,
            generation=running.generation,
            epoch=running.coordinator.lineage.last_epoch,
            failure=f"{why}; ask for it again",
        )
        for name in (*flying, *running.coordinator.savepoints)
    )


def _due(facts: JobFacts, running: RunningGeneration, now_ms: int) -> GenerationStep:
    if now_ms >= running.last_heard_ms + facts.limits.heartbeat_timeout_ms:
        silent_ms = now_ms - running.last_heard_ms
        failure = ErrorInfo(
            message=f"worker of generation {running.generation} has been silent for {silent_ms} ms",
            domain=ErrorDomain.EXTERNAL,
            code="worker_lost",
        )
        return GenerationStep(facts=facts, running=running, failure=failure)
    marks: tuple[Action, ...] = ()
    if running.unmarked is not None:
        mark = MarkCommitted(generation=running.generation, epoch=running.unmarked, inherited=True)
        marks = (mark,)
        running = replace(running, unmarked=None)
    polled = _take(facts, running, rules.poll(running.coordinator, view_of(facts, running), now_ms))
    if any(isinstance(action, RunCleanup) for action in polled.actions):
        polled = replace(polled, facts=replace(polled.facts, cleaning_since_ms=now_ms))
    return replace(polled, actions=(*marks, *polled.actions))


def _take(facts: JobFacts, running: RunningGeneration, decided: Decided) -> GenerationStep:
    last_epoch = max(facts.last_epoch, decided.coordinator.lineage.last_epoch)
    return GenerationStep(
        facts=replace(facts, last_epoch=last_epoch),
        running=replace(running, coordinator=decided.coordinator),
        actions=decided.actions,
        notes=decided.notes,
        failure=decided.failure,
    )


def _heard(
    facts: JobFacts, running: RunningGeneration, event: Event, now_ms: int
) -> tuple[JobFacts, RunningGeneration, tuple[Note, ...]]:
    """Note that the worker lives, and that it has begun to work again."""
    match event:
        case Heartbeat(progress=progress) if progress.batches == 0:
            return facts, replace(running, last_heard_ms=now_ms), ()
        case Heartbeat() | SubtaskAcked() | SourcesFinished():
            facts, notes = work_resumed(facts, now_ms)
            return facts, replace(running, last_heard_ms=now_ms), notes
        case (
            Register()
            | Restored()
            | ExecutorsChanged()
            | EpochCutDone()
            | NothingToCheckpoint()
            | SinkPublished()
            | WorkerStopped()
        ):
            return facts, replace(running, last_heard_ms=now_ms), ()
        case _:
            return facts, running, ()


def _decide(facts: JobFacts, running: RunningGeneration, event: Event, now_ms: int) -> Decided:
    coordinator, view = running.coordinator, view_of(facts, running)
    match event:
        case SubtaskAcked():
            return advance.on_ack(coordinator, view, event, now_ms)
        case EpochCutDone():
            return advance.on_cut(coordinator, view, event, now_ms)
        case NothingToCheckpoint():
            return advance.on_nothing(coordinator, view, event)
        case SinkPublished():
            return advance.on_published(coordinator, view, event)
        case CheckpointRecorded():
            return advance.on_recorded(coordinator, view, event, now_ms)
        case AttemptTaken():
            return advance.on_attempt_taken(coordinator, view, event, now_ms)
        case RecordFailed():
            return advance.on_record_failed(coordinator, view, event, now_ms)
        case MarkerWritten():
            return advance.on_marked(coordinator, view, event, now_ms)
        case MarkerFailed():
            return advance.on_marker_failed(coordinator, view, event, now_ms)
        case SavepointWritten() | SavepointFailed():
            return advance.on_saved(coordinator, view, event, now_ms)
        case CheckpointRequested():
            return Decided(coordinator=rules.ask_checkpoint(coordinator))
        case SavepointRequested(name=name):
            return Decided(coordinator=rules.ask_savepoint(coordinator, name))
        case Register():
            # The worker came back after its connection was lost: what was said may be lost too.
            return rules.repeat_message(coordinator, view)
        case Tick() | Command() | TakenUp() | ActionResult() | WorkerEvent():
            # These concern the state of the job or the worker's life, not its checkpoints.
            return Decided(coordinator=coordinator)
        case _:
            assert_never(event)


def _failure_in(facts: JobFacts, running: RunningGeneration, event: Event) -> ErrorInfo | None:
    """Return the error if the event says that this generation cannot go on."""
    match event:
        case TaskFailed(error=error):
            return error
        case WorkerExited(exit_code=exit_code, log_tail=log_tail):
            return exited_error(running.generation, exit_code, log_tail)
        case WorkerStopped():
            return ErrorInfo(message="the worker ended without being told to", code="worker_ended")
        case CheckpointSuperseded():
            return _superseded(facts, event)
        case _:
            return None


def exited_error(generation: Generation, exit_code: int | None, log_tail: str) -> ErrorInfo:
    """Return the error for a worker process that is gone."""
    if log_says_no_space(log_tail):
        return ErrorInfo(
            message=no_space("the folder that the worker writes to"),
            domain=ErrorDomain.EXTERNAL,
            code=NO_SPACE,
            detail=log_tail[-LOG_CHARACTERS_MAX:],
        )
    how = "is gone" if exit_code is None else f"ended with exit code {exit_code}"
    return ErrorInfo(
        message=f"the worker process of generation {generation} {how}",
        domain=ErrorDomain.EXTERNAL,
        code="worker_exited",
        detail=log_tail[-LOG_CHARACTERS_MAX:] or None,
    )


def _superseded(facts: JobFacts, event: CheckpointSuperseded) -> ErrorInfo:
    if event.fence <= event.generation:
        message = f"epoch {event.epoch} was recorded by an older generation that is still awake"
        return ErrorInfo(message=message, code="epoch_taken")
    if may_claim_back(ours=facts.claimant, theirs=event.claimant):
        message = f"generation {event.fence} was claimed by a controller that lost the job"
        return ErrorInfo(message=message, code="fenced")
    return ErrorInfo(
        message=f"another controller ({event.claimant or 'unknown'}) has taken the job over with"
        f" generation {event.fence}; this one lets go of it",
        retry=RetryHint.NO_RETRY,
        code="superseded",
    )
