"""A new generation is brought up: load prepared, slots, fence, worker, restore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules import failure
from headgate.controller.rules.actions import (
    AcquireSlots,
    ClaimGeneration,
    StartPipeline,
    StartWorker,
    prepare_load,
)
from headgate.controller.rules.events import (
    ActionFailed,
    ActionResult,
    CheckpointCommand,
    Event,
    GenerationClaimed,
    LoadPlanned,
    RescaleRequested,
    RestartRequested,
    SlotsGranted,
    SlotsRefused,
    StopRequested,
    TakenUp,
    Tick,
    WorkerExited,
)
from headgate.controller.rules.generation import begin_generation, exited_error
from headgate.controller.rules.job_facts import JobFacts, OperatorNeed
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.recovery_clock import (
    load_planned,
    worker_registered,
    worker_restored,
)
from headgate.controller.rules.states import (
    checkpoint_stopping,
    failing,
    rescaling,
    restarting,
    running,
    stopping,
)
from headgate.core.errors import ErrorDomain, ErrorInfo
from headgate.core.ids import NO_GENERATION
from headgate.core.messages import (
    Heartbeat,
    Register,
    Restored,
    TaskFailed,
    WorkerEvent,
    WorkerStopped,
)
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.checkpoint_stopping import CheckpointStopping
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.recovering import Recovering
    from headgate.controller.rules.states.rescaling import Rescaling
    from headgate.controller.rules.states.restarting import Restarting
    from headgate.controller.rules.states.running import Running
    from headgate.controller.rules.states.stopping import Stopping

SchedulingPhase = Literal["preparing", "waiting_for_slots", "claiming", "starting", "restoring"]


@model
class Scheduling:
    kind: Literal["scheduling"] = "scheduling"
    facts: JobFacts
    needs: tuple[OperatorNeed, ...]
    phase: SchedulingPhase
    phase_since_ms: int
    prepared: LoadPlanned | None = None
    # Of the generation being started; None = not heard of since.
    last_heard_ms: int | None = None
    # Why it waits for slots, for a person.
    waiting: str = ""
    ask_slots_at_ms: int | None = None


def enter_scheduling(
    facts: JobFacts, needs: tuple[OperatorNeed, ...], prepared: LoadPlanned | None, now_ms: int
) -> Step[Scheduling]:
    facts = moved(facts, now_ms)
    state = Scheduling(
        facts=facts, needs=needs, phase="preparing", phase_since_ms=now_ms, prepared=prepared
    )
    if prepared is None:
        return Step(state, (prepare_load(facts),), reason="pipeline compiled")
    step = _ask_slots(state, now_ms)
    return replace(step, reason="pipeline compiled")


def _ask_slots(state: Scheduling, now_ms: int) -> Step[Scheduling]:
    facts = state.facts
    since_ms = state.phase_since_ms if state.phase == "waiting_for_slots" else now_ms
    asked = replace(state, phase="waiting_for_slots", phase_since_ms=since_ms, ask_slots_at_ms=None)
    return Step(asked, (AcquireSlots(turn=facts.turn, slots=facts.parallelism),))


def scheduling_deadline(state: Scheduling) -> int | None:
    limits = state.facts.limits
    match state.phase:
        case "starting":
            return state.phase_since_ms + limits.worker_startup_ms
        case "restoring" if state.last_heard_ms is None:
            return state.phase_since_ms + limits.worker_startup_ms
        case "restoring" if state.last_heard_ms is not None:
            return min(
                state.phase_since_ms + limits.restore_timeout_ms,
                state.last_heard_ms + limits.heartbeat_timeout_ms,
            )
        case "waiting_for_slots":
            return state.ask_slots_at_ms
        case _:
            return state.phase_since_ms + limits.action_timeout_ms


def step_scheduling(
    state: Scheduling, event: Event, now_ms: int
) -> Step[
    Scheduling
    | Running
    | CheckpointStopping
    | Rescaling
    | Restarting
    | Stopping
    | Recovering
    | Failing
]:
    facts = state.facts
    match event:
        case LoadPlanned():
            return _on_prepared(state, event, now_ms)
        case SlotsGranted() if state.phase == "waiting_for_slots" and state.prepared is not None:
            claiming = replace(state, phase="claiming", phase_since_ms=now_ms, waiting="")
            claim = ClaimGeneration(
                turn=facts.turn,
                known=NO_GENERATION if facts.takes_over else facts.generation,
                base=state.prepared.plan.checkpoint,
                parallelism=facts.parallelism,
                ignore_before=state.prepared.ignore_before,
                ignore_through=state.prepared.ignore_through,
            )
            return Step(claiming, (claim,))
        case SlotsRefused(reason=reason):
            ask_at_ms = now_ms + facts.limits.slots_retry_ms
            return Step(replace(state, waiting=reason, ask_slots_at_ms=ask_at_ms))
        case GenerationClaimed(generation=generation) if state.phase == "claiming":
            claimed = replace(
                state,
                facts=replace(facts, generation=generation, takes_over=False),
                phase="starting",
                phase_since_ms=now_ms,
                last_heard_ms=None,
            )
            return Step(claimed, (StartWorker(turn=facts.turn, generation=generation),))
        case Register() if state.phase in ("starting", "restoring"):
            return _on_registered(state, event, now_ms)
        case Restored() if state.phase == "restoring":
            return _on_restored(state, event, now_ms)
        case Heartbeat(progress=progress) if state.phase == "restoring":
            # While the cluster has no place for it, the time to restore has not begun.
            since_ms = now_ms if progress.waiting_for else state.phase_since_ms
            return Step(replace(state, phase_since_ms=since_ms, last_heard_ms=now_ms))
        case ActionFailed(error=error) | TaskFailed(error=error):
            return failure.recover_or_fail(facts, error, now_ms)
        case WorkerExited(exit_code=exit_code, log_tail=log_tail):
            error = exited_error(facts.generation, exit_code, log_tail)
            return failure.recover_or_fail(facts, error, now_ms)
        case WorkerStopped():
            ended = ErrorInfo(message="the worker ended while it was starting", code="worker_ended")
            return failure.recover_or_fail(facts, ended, now_ms)
        case TakenUp():
            return failure.lost_with_controller(facts, now_ms)
        case Tick():
            return _on_tick(state, now_ms)
        case StopRequested(mode="checkpoint"):
            return _stop_if_nothing_to_publish(
                replace(state, facts=replace(facts, stop_with_checkpoint=True)), now_ms
            )
        case StopRequested():
            return stopping.enter_stopping_by_kill(facts, now_ms, reason="stopped while starting")
        case RescaleRequested(parallelism=parallelism):
            if parallelism == facts.parallelism:
                return Step(state)
            return rescaling.enter_rescaling_by_kill(facts, state.needs, parallelism, now_ms)
        case RestartRequested(mode=mode):
            if mode == "safe" and event.parallelism is None and event.limits is None:
                return Step(state)
            return restarting.enter_restarting_by_kill(facts, mode, now_ms)
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, facts))
        case ActionResult() | WorkerEvent():
            # Answers of another phase, and what a worker says before it has been started.
            return Step(state)
        case _:
            assert_never(event)


def _on_prepared(
    state: Scheduling, event: LoadPlanned, now_ms: int
) -> Step[Scheduling | Stopping | Failing]:
    if state.phase != "preparing":
        return Step(state)
    lost = failure.lost_records(state.facts, event)
    if lost is not None:
        return failing.enter_failing(state.facts, lost, now_ms)
    facts, notes = load_planned(state.facts, event, now_ms)
    prepared = replace(state, facts=facts, prepared=event)
    if has_nothing_to_publish(prepared):
        step = stopping.enter_stopping_by_kill(facts, now_ms, reason="nothing left to publish")
        return replace(step, notes=notes)
    return replace(_ask_slots(prepared, now_ms), notes=notes)


def has_nothing_to_publish(state: Scheduling) -> bool:
    """Whether a stop with a final checkpoint is already fulfilled.

    No worker has read anything since the checkpoint that was prepared, so it is the final one.
    """
    if not state.facts.stop_with_checkpoint or state.prepared is None:
        return False
    return not state.prepared.plan.pending_commits and not state.prepared.plan.replays


def _stop_if_nothing_to_publish(state: Scheduling, now_ms: int) -> Step[Scheduling | Stopping]:
    if has_nothing_to_publish(state):
        reason = "stopped while starting: the last checkpoint is complete"
        return stopping.enter_stopping_by_kill(state.facts, now_ms, reason=reason)
    return Step(state)


def _on_registered(state: Scheduling, event: Register, now_ms: int) -> Step[Scheduling]:
    if state.prepared is None:
        return Step(state)
    facts, notes = worker_registered(replace(state.facts, node=event.node), now_ms)
    start = StartPipeline(
        turn=facts.turn,
        generation=facts.generation,
        parallelism=state.prepared.plan.parallelism,
        plan=state.prepared.plan,
    )
    # A worker that registers again has lost its connection: it is told again, from the beginning.
    since_ms = now_ms if state.phase == "starting" else state.phase_since_ms
    restoring = replace(state, facts=facts, phase="restoring", phase_since_ms=since_ms)
    return Step(restoring, (start,), notes=notes)


def _on_restored(
    state: Scheduling, event: Restored, now_ms: int
) -> Step[Scheduling | Running | CheckpointStopping]:
    if state.prepared is None:
        return Step(state)
    facts, notes = worker_restored(state.facts, event.timings, now_ms)
    pending = [commit.epoch for commit in state.prepared.plan.pending_commits]
    begun = begin_generation(
        facts,
        needs=state.needs,
        parallelism=state.prepared.plan.parallelism,
        lineage=state.prepared.lineage,
        unmarked=max(pending, default=None),
        now_ms=now_ms,
    )
    if facts.stop_with_checkpoint:
        stop = checkpoint_stopping.enter_checkpoint_stopping(facts, begun, now_ms)
        return replace(stop, notes=(*notes, *stop.notes))
    run = running.enter_running(facts, begun, now_ms)
    return replace(run, notes=(*notes, *run.notes))


def _on_tick(state: Scheduling, now_ms: int) -> Step[Scheduling | Recovering | Failing]:
    deadline_ms = scheduling_deadline(state)
    if deadline_ms is None or now_ms < deadline_ms:
        return Step(state)
    if state.phase == "waiting_for_slots":
        return _ask_slots(state, now_ms)
    if state.phase in ("preparing", "claiming"):
        message = f"the storage did not answer in time while {state.phase}"
        code = "action_timeout"
    elif state.phase == "starting":
        message = "the worker did not register within the startup timeout"
        code = "worker_startup"
    elif state.last_heard_ms is None:
        message = "the worker registered and then said nothing within the startup timeout"
        code = "worker_startup"
    elif now_ms >= state.last_heard_ms + state.facts.limits.heartbeat_timeout_ms:
        message = "the worker fell silent while it restored"
        code = "worker_lost"
    else:
        message = "the worker did not restore within the restore timeout"
        code = "restore_timeout"
    error = ErrorInfo(message=message, domain=ErrorDomain.EXTERNAL, code=code)
    return failure.recover_or_fail(state.facts, error, now_ms)
