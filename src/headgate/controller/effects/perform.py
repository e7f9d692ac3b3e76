"""Actions become effects here, synchronously: `perform(action, ports) -> events`.

The runner and the simulation both go through this file. Whatever goes wrong is an event, too: the
rules decide what becomes of it. Every action may be performed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from headgate.controller.effects import storage
from headgate.controller.effects.ports import JobPorts
from headgate.controller.rules.actions import (
    AcquireSlots,
    Action,
    ClaimGeneration,
    Compile,
    KillWorkers,
    MarkCommitted,
    PrepareLoad,
    RecordCheckpoint,
    ReleaseSlots,
    RunCleanup,
    SendToWorker,
    StartPipeline,
    StartWorker,
    WriteSavepoint,
)
from headgate.controller.rules.events import (
    ActionFailed,
    CleanupFailed,
    Compiled,
    Event,
    MarkerFailed,
    RecordFailed,
    SavepointFailed,
    SlotsGranted,
    SlotsRefused,
    WorkersKilled,
    WorkerStarted,
)
from headgate.controller.rules.job_facts import operator_needs
from headgate.core.errors import ErrorInfo, error_info
from headgate.core.messages import Start

# These wait for storage, a planner or a process: the runner performs them beside its loop, so
# that the worker's messages are still taken meanwhile.
_SLOW = (
    Compile,
    PrepareLoad,
    ClaimGeneration,
    KillWorkers,
    RecordCheckpoint,
    MarkCommitted,
    WriteSavepoint,
    RunCleanup,
)

# These read or write the log of epochs. One after the other: a record that is still being written
# when the worker dies would otherwise be missed by the recovery, which then has to start over.
_ON_THE_LOG = (PrepareLoad, ClaimGeneration, RecordCheckpoint, MarkCommitted)


def is_on_the_log(action: Action) -> bool:
    """Whether the action must not overlap with another one that this is true of."""
    return isinstance(action, _ON_THE_LOG)


def is_slow(action: Action) -> bool:
    """Whether the action may block for long."""
    return isinstance(action, _SLOW)


def perform(action: Action, ports: JobPorts) -> list[Event]:
    """Carry out one action and return what came of it."""
    try:
        return list(_perform(action, ports))
    except Exception as error:  # noqa: BLE001  the boundary of all effects: the error is the event
        return list(_failure(action, error_info(error)))


def _perform(action: Action, ports: JobPorts) -> Sequence[Event]:
    match action:
        case Compile(turn=turn):
            graph = ports.compile()
            return (
                Compiled(turn=turn, needs=operator_needs(graph), fingerprint=graph.fingerprint()),
            )
        case PrepareLoad():
            return (storage.prepare_load(action, ports),)
        case AcquireSlots(turn=turn, slots=slots):
            refused = ports.slots.acquire(ports.job, slots)
            if refused is not None:
                return (SlotsRefused(turn=turn, reason=refused),)
            return (SlotsGranted(turn=turn),)
        case ReleaseSlots():
            ports.slots.release(ports.job)
            return ()
        case ClaimGeneration():
            return (storage.claim(action, ports),)
        case StartWorker(turn=turn, generation=generation):
            ports.fleet.start(ports.job, generation, ports.new_token())
            return (WorkerStarted(turn=turn, generation=generation),)
        case StartPipeline():
            ports.fleet.send(ports.job, action.generation, _start_message(action, ports))
            return ()
        case SendToWorker(generation=generation, message=message):
            ports.fleet.send(ports.job, generation, message)
            return ()
        case KillWorkers(turn=turn, generation=generation):
            ports.fleet.kill(ports.job, generation)
            return (WorkersKilled(turn=turn),)
        case RecordCheckpoint():
            return (storage.record(action, ports),)
        case MarkCommitted():
            return (storage.mark_committed(action, ports),)
        case WriteSavepoint():
            return (storage.write_savepoint(action, ports),)
        case RunCleanup():
            return (storage.run_cleanup(action, ports),)
        case _:
            assert_never(action)


def _start_message(action: StartPipeline, ports: JobPorts) -> Start:
    return Start(
        job=ports.job,
        generation=action.generation,
        parallelism=action.parallelism,
        graph=ports.graph(),
        plan=action.plan,
        settings=ports.run_settings(action.generation),
    )


def _failure(action: Action, error: ErrorInfo) -> Sequence[Event]:
    match action:
        case (
            Compile(turn=turn)
            | PrepareLoad(turn=turn)
            | AcquireSlots(turn=turn)
            | ClaimGeneration(turn=turn)
            | StartWorker(turn=turn)
            | StartPipeline(turn=turn)
            | KillWorkers(turn=turn)
        ):
            return (ActionFailed(turn=turn, doing=type(action).__name__, error=error),)
        case RecordCheckpoint(generation=generation, epoch=epoch, attempt=attempt):
            return (RecordFailed(generation=generation, epoch=epoch, attempt=attempt, error=error),)
        case MarkCommitted(generation=generation, epoch=epoch):
            return (MarkerFailed(generation=generation, epoch=epoch, error=error),)
        case WriteSavepoint(generation=generation, epoch=epoch, name=name):
            return (SavepointFailed(generation=generation, epoch=epoch, name=name, error=error),)
        case RunCleanup():
            return (CleanupFailed(error=error),)
        case SendToWorker() | ReleaseSlots():
            # A message to a dead worker is lost; its death is an event of its own.
            return ()
        case _:
            assert_never(action)
