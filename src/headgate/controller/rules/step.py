"""The whole decision: `step(state, event, now_ms) -> Step(next, actions, reason, notes)`.

Pure: no clock, no storage, no randomness. Events that belong to another generation or to an
earlier turn are dropped here, once, so that no rule has to think of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from headgate.controller.checkpoints.coordinator import held_up_ms
from headgate.controller.rules.events import (
    CheckpointResult,
    CleanupDone,
    CleanupFailed,
    Event,
    RescaleRequested,
    RestartRequested,
    TakenUp,
    TurnResult,
)
from headgate.controller.rules.generation import view_of
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.notes import CleanupNote, ExecutorsNote
from headgate.controller.rules.outcome import Step
from headgate.controller.rules.state import JobState
from headgate.controller.rules.states.checkpoint_stopping import (
    CheckpointStopping,
    step_checkpoint_stopping,
)
from headgate.controller.rules.states.compiling import Compiling, step_compiling
from headgate.controller.rules.states.created import Created, step_created
from headgate.controller.rules.states.failed import Failed, step_failed
from headgate.controller.rules.states.failing import Failing, step_failing
from headgate.controller.rules.states.finished import Finished, step_finished
from headgate.controller.rules.states.finishing import Finishing, step_finishing
from headgate.controller.rules.states.recovering import Recovering, step_recovering
from headgate.controller.rules.states.rescaling import Rescaling, step_rescaling
from headgate.controller.rules.states.restarting import Restarting, step_restarting
from headgate.controller.rules.states.running import Running, step_running
from headgate.controller.rules.states.scheduling import Scheduling, step_scheduling
from headgate.controller.rules.states.stopped import Stopped, step_stopped
from headgate.controller.rules.states.stopping import Stopping, step_stopping
from headgate.core.ids import Generation
from headgate.core.messages import ExecutorsChanged, WorkerEvent


def step(state: JobState, event: Event, now_ms: int) -> Step[JobState]:
    """Decide what becomes of the job. Never raises, whatever the event.

    `now_ms` must not go back while one controller drives the job.
    """
    if is_outdated(state.facts, event):
        return Step(state)
    if isinstance(event, CleanupDone | CleanupFailed):
        return _cleanup_over(state, event, now_ms)
    if isinstance(event, ExecutorsChanged):
        return _executors_changed(state, event, now_ms)
    if isinstance(event, TakenUp):
        # A cleanup dies with the process that ran it.
        facts = replace(state.facts, claimant=event.claimant, cleaning_since_ms=None)
        state = replace(state, facts=facts)
    if isinstance(event, RescaleRequested) and event.parallelism < 1:
        return Step(state)
    if isinstance(event, RestartRequested):
        state = replace(state, facts=_with_settings(state.facts, event))
    return _dispatch(state, event, now_ms)


def _with_settings(facts: JobFacts, event: RestartRequested) -> JobFacts:
    ignoring = event.mode == "ignore_state"
    return replace(
        facts,
        parallelism=facts.parallelism if event.parallelism is None else event.parallelism,
        limits=facts.limits if event.limits is None else event.limits,
        # Said as a generation, it stays true: what the job records from now on is not ignored.
        # It only grows: what was ignored once is output that a person has removed.
        ignore_before=max(Generation(facts.generation + 1), facts.ignore_before)
        if ignoring
        else facts.ignore_before,
        ignore_through=max(facts.last_epoch, facts.ignore_through)
        if ignoring
        else facts.ignore_through,
    )


def is_outdated(facts: JobFacts, event: Event) -> bool:
    """Whether the event belongs to another generation or to an earlier turn."""
    match event:
        case TurnResult(turn=turn):
            return turn != facts.turn
        case CheckpointResult(generation=generation) | WorkerEvent(generation=generation):
            return generation != facts.generation
        case _:
            return False


def _cleanup_over(
    state: JobState, event: CleanupDone | CleanupFailed, now_ms: int
) -> Step[JobState]:
    """A cleanup ends in whatever state the job is by then; checkpoints may start again."""
    began_ms = state.facts.cleaning_since_ms
    if began_ms is None:
        return Step(state)
    failure = event.error.message if isinstance(event, CleanupFailed) else None
    done = event if isinstance(event, CleanupDone) else CleanupDone()
    note = CleanupNote(
        objects_deleted=done.objects_deleted,
        bytes_deleted=done.bytes_deleted,
        duration_ms=now_ms - began_ms,
        held_up_ms=_held_up_ms(state, began_ms, now_ms),
        finished=done.finished,
        failure=failure,
    )
    facts = replace(state.facts, cleaning_since_ms=None, cleanup_unfinished=not done.finished)
    cleaned = replace(state, facts=facts)
    after = _dispatch(cleaned, event, now_ms)
    return replace(after, notes=(note, *after.notes))


def _executors_changed(state: JobState, event: ExecutorsChanged, now_ms: int) -> Step[JobState]:
    """Whatever the job is at, it is worth remembering; beyond that the worker is alive."""
    note = ExecutorsNote(
        generation=event.generation,
        joined=event.joined,
        lost=event.lost,
        refused=event.refused,
        executors=event.executors,
    )
    after = _dispatch(state, event, now_ms)
    return replace(after, notes=(note, *after.notes))


def _held_up_ms(state: JobState, began_ms: int, now_ms: int) -> int:
    if not isinstance(state, Running):
        return 0
    view = view_of(state.facts, state.running)
    return held_up_ms(state.running.coordinator, view, since_ms=began_ms, now_ms=now_ms)


def _dispatch(state: JobState, event: Event, now_ms: int) -> Step[JobState]:
    match state:
        case Created():
            return step_created(state, event, now_ms)
        case Compiling():
            return step_compiling(state, event, now_ms)
        case Scheduling():
            return step_scheduling(state, event, now_ms)
        case Running():
            return step_running(state, event, now_ms)
        case CheckpointStopping():
            return step_checkpoint_stopping(state, event, now_ms)
        case Stopping():
            return step_stopping(state, event, now_ms)
        case Stopped():
            return step_stopped(state, event, now_ms)
        case Finishing():
            return step_finishing(state, event, now_ms)
        case Finished():
            return step_finished(state, event, now_ms)
        case Rescaling():
            return step_rescaling(state, event, now_ms)
        case Restarting():
            return step_restarting(state, event, now_ms)
        case Recovering():
            return step_recovering(state, event, now_ms)
        case Failing():
            return step_failing(state, event, now_ms)
        case Failed():
            return step_failed(state, event, now_ms)
        case _:
            assert_never(state)
