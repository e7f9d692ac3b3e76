"""A job's state: the union of all, what of it is stored, and when it must be looked at again."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, assert_never

from pydantic import BeforeValidator, Field

from headgate.controller.checkpoints.phases import Idle
from headgate.controller.rules.generation import RunningGeneration, generation_deadline
from headgate.controller.rules.shutdown import Shutdown, shutdown_deadline
from headgate.controller.rules.states.checkpoint_stopping import CheckpointStopping
from headgate.controller.rules.states.compiling import Compiling, compiling_deadline
from headgate.controller.rules.states.created import Created
from headgate.controller.rules.states.failed import Failed
from headgate.controller.rules.states.failing import Failing, failing_deadline
from headgate.controller.rules.states.finished import Finished
from headgate.controller.rules.states.finishing import Finishing
from headgate.controller.rules.states.recovering import Recovering, recovering_deadline
from headgate.controller.rules.states.rescaling import Rescaling
from headgate.controller.rules.states.restarting import Restarting
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.states.scheduling import Scheduling, scheduling_deadline
from headgate.controller.rules.states.stopped import Stopped
from headgate.controller.rules.states.stopping import Stopping

JobState = (
    Created
    | Compiling
    | Scheduling
    | Running
    | CheckpointStopping
    | Stopping
    | Stopped
    | Finishing
    | Finished
    | Rescaling
    | Restarting
    | Recovering
    | Failing
    | Failed
)


def _with_current_names(document: Any) -> Any:
    """Return a stored state with the fields of today: version 0.1 called two of them otherwise."""
    if not isinstance(document, dict):
        return document
    current = {
        _RENAMED.get(name, name): value for name, value in document.items() if name not in _GONE
    }
    for name in _RENAMED.values():
        if name in current:
            current[name] = _with_current_names(current[name])
    return current


_RENAMED = {"live": "running", "drain": "shutdown"}
_GONE = {"sources_finished"}
# The union as JSON knows it.
StoredJobState = Annotated[
    Annotated[JobState, Field(discriminator="kind")], BeforeValidator(_with_current_names)
]

TERMINAL = (Stopped, Finished, Failed)


def is_terminal(state: JobState) -> bool:
    """Whether nothing but a person's command can change the job."""
    return isinstance(state, TERMINAL)


def stored_form(state: JobState) -> JobState:
    """Return the state without what dies with the controller's process anyway.

    A controller that takes a job up asks the storage for the truth about checkpoints, so
    acknowledgements, loading plans and heartbeats need not be written; a step that changed nothing
    else need not be persisted at all.
    """
    match state:
        case Compiling():
            return replace(state, prepared=None)
        case Scheduling():
            return replace(state, prepared=None, last_heard_ms=None, ask_slots_at_ms=None)
        case Running():
            return replace(state, running=_quiet(state.running))
        case CheckpointStopping() | Stopping() | Finishing() | Rescaling() | Restarting():
            return replace(state, shutdown=_quiet_shutdown(state.shutdown))
        case Created() | Stopped() | Finished() | Recovering() | Failing() | Failed():
            return state
        case _:
            assert_never(state)


def _quiet(running: RunningGeneration) -> RunningGeneration:
    coordinator = replace(
        running.coordinator,
        phase=Idle(),
        asked=False,
        savepoints=(),
        last_started_ms=running.since_ms,
        aborts_in_row=0,
    )
    return replace(running, coordinator=coordinator, last_heard_ms=running.since_ms)


def _quiet_shutdown(shutdown: Shutdown) -> Shutdown:
    return (
        shutdown
        if shutdown.running is None
        else replace(shutdown, running=_quiet(shutdown.running))
    )


def next_deadline(state: JobState) -> int | None:
    """Return when the state must see a `Tick`, derived from the state alone; None = never."""
    match state:
        case Scheduling():
            return scheduling_deadline(state)
        case Running():
            return generation_deadline(state.facts, state.running)
        case CheckpointStopping() | Stopping() | Finishing() | Rescaling() | Restarting():
            return shutdown_deadline(state.facts, state.shutdown)
        case Recovering():
            return recovering_deadline(state)
        case Compiling():
            return compiling_deadline(state)
        case Failing():
            return failing_deadline(state)
        case Created() | Stopped() | Finished() | Failed():
            return None
        case _:
            assert_never(state)
