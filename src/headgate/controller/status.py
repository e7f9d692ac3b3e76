"""A job as a person sees it."""

from __future__ import annotations

import math

from headgate.controller.checkpoints.phases import Idle
from headgate.controller.rules.generation import RunningGeneration
from headgate.controller.rules.limits import UNLIMITED
from headgate.controller.rules.state import JobState, is_terminal
from headgate.controller.rules.states.checkpoint_stopping import CheckpointStopping
from headgate.controller.rules.states.failed import Failed
from headgate.controller.rules.states.failing import Failing
from headgate.controller.rules.states.finishing import Finishing
from headgate.controller.rules.states.recovering import Recovering
from headgate.controller.rules.states.rescaling import Rescaling
from headgate.controller.rules.states.restarting import Restarting
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.states.scheduling import Scheduling
from headgate.controller.rules.states.stopping import Stopping
from headgate.controller.store.jobs import StoredJob
from headgate.controller.store.leases import LastProgress
from headgate.core.errors import ErrorInfo
from headgate.core.ids import Epoch, Generation, JobId
from headgate.core.messages import Progress
from headgate.core.model import model


@model
class JobStatus:
    """`state` is the kind of the state ("running", ...); `doing` says where in it the job is."""

    job: JobId
    pipeline: str
    state: str
    terminal: bool
    doing: str
    since_ms: int
    generation: Generation
    parallelism: int
    last_epoch: Epoch
    committed_epoch: Epoch
    checkpoint_in_flight: Epoch | None
    restarts_used: int
    recoveries: int
    # Why it failed, or what the recovery under way is about.
    error: ErrorInfo | None
    # None = no worker has reported yet.
    progress: Progress | None
    # Whether this controller drives it.
    driven_here: bool
    # Where it is driven: a URL, or a process that has none; None = nobody drives it.
    driven_by: str | None = None
    # When the worker said so.
    progress_at_ms: int | None = None
    # The node that its worker runs on; empty = the controller's own machine, or there is none.
    node: str = ""


def status_of(
    stored: StoredJob,
    state: JobState,
    said: LastProgress | None,
    *,
    driven_here: bool,
    driven_by: str | None = None,
) -> JobStatus:
    facts = state.facts
    running = running_generation(state)
    return JobStatus(
        job=stored.job,
        pipeline=stored.spec.name,
        state=state.kind,
        terminal=is_terminal(state),
        doing=describe(state, said.progress.waiting_for if said is not None else ""),
        since_ms=facts.entered_ms,
        generation=facts.generation,
        parallelism=facts.parallelism,
        last_epoch=facts.last_epoch,
        committed_epoch=facts.committed_epoch,
        checkpoint_in_flight=None if running is None else _in_flight(running),
        restarts_used=facts.restarts_used,
        recoveries=facts.recoveries,
        error=_error(state),
        progress=None if said is None else said.progress,
        driven_here=driven_here,
        driven_by=driven_by,
        progress_at_ms=None if said is None else said.at_ms,
        node=_node(state),
    )


def _node(state: JobState) -> str:
    restoring = isinstance(state, Scheduling) and state.phase == "restoring"
    return state.facts.node if restoring or running_generation(state) is not None else ""


def running_generation(state: JobState) -> RunningGeneration | None:
    """Return the generation under way, if there is one."""
    match state:
        case Running():
            return state.running
        case CheckpointStopping() | Stopping() | Finishing() | Rescaling() | Restarting():
            return state.shutdown.running
        case _:
            return None


# What it waits for while a generation is brought up, in the order of the phases.
_STARTING = {
    "preparing": "looking for the newest checkpoint",
    "waiting_for_slots": "waiting for slots",
    "claiming": "claiming the job",
    "starting": "waiting for Spark to start",
    "restoring": "waiting for Spark to start",
}


def describe(state: JobState, waiting_for: str = "", *, now_ms: int | None = None) -> str:
    """Say in a few words what the job is doing within its state.

    `waiting_for` is what its worker said last. With `now_ms` it says how long a wait will be.
    """
    match state:
        case Scheduling(phase="waiting_for_slots", waiting=waiting) if waiting:
            return waiting
        case Scheduling(phase="restoring") if waiting_for:
            return f"waiting for {waiting_for}"
        case Scheduling(phase=phase, prepared=prepared):
            restores = phase == "restoring" and prepared is not None and prepared.plan.subtasks
            return _STARTING[phase] + (" and restore the state" if restores else "")
        case Recovering():
            return _next_try(state, now_ms)
        case Running(running=running):
            return (
                ""
                if isinstance(running.coordinator.phase, Idle)
                else running.coordinator.phase.kind
            )
        case CheckpointStopping() | Stopping() | Finishing() | Rescaling() | Restarting():
            words = {"checkpoint": "final checkpoint", "worker": "worker is ending"}
            return words.get(state.shutdown.phase, "killing the worker")
        case Failing(error=error) | Failed(error=error):
            return error.message
        case _:
            return ""


def _next_try(state: Recovering, now_ms: int | None) -> str:
    limits = state.facts.limits
    if not state.facts.restarts_used:
        # Nothing that the job did: its controller ended, or an executor was lost.
        return state.reason
    most = "" if limits.restarts_max == UNLIMITED else f" of {limits.restarts_max}"
    left_ms = 0 if now_ms is None else state.not_before_ms - now_ms
    when = f" in {math.ceil(left_ms / 1000)} s" if left_ms > 0 else ""
    return f"retry {state.facts.restarts_used}{most}{when}: {state.reason}"


def _in_flight(running: RunningGeneration) -> Epoch | None:
    phase = running.coordinator.phase
    return None if isinstance(phase, Idle) else phase.checkpoint.epoch


def _error(state: JobState) -> ErrorInfo | None:
    match state:
        case Failing(error=error) | Failed(error=error):
            return error
        case Recovering(source=source):
            return source
        case _:
            return None
