"""Something failed: what is left of the worker goes, then the newest usable checkpoint is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_never

from headgate.controller.rules import failure
from headgate.controller.rules.actions import KillWorkers, ReleaseSlots, prepare_load
from headgate.controller.rules.events import (
    ActionFailed,
    ActionResult,
    CheckpointCommand,
    Event,
    LoadPlanned,
    RescaleRequested,
    RestartRequested,
    StopRequested,
    TakenUp,
    Tick,
    WorkersKilled,
)
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.outcome import Step, moved, refusal
from headgate.controller.rules.recovery_clock import load_planned, recovery_began
from headgate.controller.rules.states import compiling, failing, stopping
from headgate.core.errors import ErrorDomain, ErrorInfo
from headgate.core.messages import WorkerEvent
from headgate.core.model import model

if TYPE_CHECKING:
    from headgate.controller.rules.states.compiling import Compiling
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.stopping import Stopping


@model
class Recovering:
    kind: Literal["recovering"] = "recovering"
    facts: JobFacts
    # The error that started it all, while recoveries fail one after another.
    source: ErrorInfo
    # Why this one, for a person.
    reason: str
    domain: ErrorDomain
    phase: Literal["killing", "waiting", "preparing"] = "killing"
    not_before_ms: int


def enter_recovering(
    facts: JobFacts, *, source: ErrorInfo, reason: str, delay_ms: int, now_ms: int
) -> Step[Recovering]:
    facts = recovery_began(moved(facts, now_ms), reason, now_ms)
    state = Recovering(
        facts=facts,
        source=source,
        reason=reason,
        domain=source.domain,
        not_before_ms=now_ms + delay_ms,
    )
    actions = (KillWorkers(turn=facts.turn, generation=facts.generation), ReleaseSlots())
    return Step(state, actions, reason=reason)


def recovering_deadline(state: Recovering) -> int:
    match state.phase:
        case "killing":
            return state.facts.entered_ms + state.facts.limits.kill_timeout_ms
        case "waiting":
            return state.not_before_ms
        case "preparing":
            return state.facts.entered_ms + state.facts.limits.action_timeout_ms


def step_recovering(
    state: Recovering, event: Event, now_ms: int
) -> Step[Recovering | Compiling | Stopping | Failing]:
    facts = state.facts
    match event:
        case WorkersKilled() if state.phase == "killing":
            return _prepare_when_due(replace(state, phase="waiting"), now_ms)
        case Tick() if now_ms >= recovering_deadline(state):
            return _on_deadline(state, now_ms)
        case LoadPlanned() if state.phase == "preparing":
            return _on_prepared(state, event, now_ms)
        case ActionFailed() if state.phase == "killing":
            # A worker that cannot be killed is fenced by the next generation.
            return _prepare_when_due(replace(state, phase="waiting"), now_ms)
        case ActionFailed(error=error):
            return failure.recover_or_fail(facts, error, now_ms, source=state.source)
        case TakenUp():
            # The clock of another process may have been ahead: the wait starts anew, bounded.
            longest_ms = now_ms + facts.limits.backoff_max_ms
            again = replace(
                state,
                facts=moved(facts, now_ms),
                phase="killing",
                not_before_ms=min(state.not_before_ms, longest_ms),
            )
            kill = KillWorkers(turn=again.facts.turn, generation=facts.generation)
            return Step(again, (kill, ReleaseSlots()))
        case StopRequested(mode="checkpoint"):
            return Step(replace(state, facts=replace(facts, stop_with_checkpoint=True)))
        case StopRequested(mode=mode):
            reason = f"stop asked for: {mode}"
            return stopping.enter_stopping_by_kill(facts, now_ms, reason=reason)
        case RestartRequested():
            return _at_once(state, now_ms)
        case RescaleRequested(parallelism=parallelism):
            rescaled = replace(state, facts=replace(facts, parallelism=parallelism))
            return _prepare(rescaled, now_ms) if state.phase == "preparing" else Step(rescaled)
        case CheckpointCommand():
            return Step(state, notes=refusal(event, state.kind, facts))
        case Tick() | ActionResult() | WorkerEvent():
            # The worker is being killed, whatever it says; answers of another phase came too late.
            return Step(state)
        case _:
            assert_never(event)


def _on_deadline(state: Recovering, now_ms: int) -> Step[Recovering | Failing]:
    if state.phase == "preparing":
        slow = ErrorInfo(
            message="the storage did not answer in time while the load was prepared",
            domain=ErrorDomain.EXTERNAL,
            code="action_timeout",
        )
        return failure.recover_or_fail(state.facts, slow, now_ms, source=state.source)
    # A worker that does not die is fenced by the next generation.
    return _prepare_when_due(replace(state, phase="waiting"), now_ms)


def _prepare_when_due(state: Recovering, now_ms: int) -> Step[Recovering]:
    return _prepare(state, now_ms) if now_ms >= state.not_before_ms else Step(state)


def _prepare(state: Recovering, now_ms: int) -> Step[Recovering]:
    # A new turn, so that the answer to an earlier question (another parallelism) is not taken.
    facts = moved(state.facts, now_ms)
    preparing = replace(state, facts=facts, phase="preparing")
    return Step(preparing, (prepare_load(facts),))


def _on_prepared(
    state: Recovering, event: LoadPlanned, now_ms: int
) -> Step[Compiling | Stopping | Failing]:
    lost = failure.lost_records(state.facts, event)
    if lost is not None:
        return failing.enter_failing(state.facts, lost, now_ms)
    facts, notes = load_planned(state.facts, event, now_ms)
    nothing_left = not event.plan.pending_commits and not event.plan.replays
    if facts.stop_with_checkpoint and nothing_left:
        # No worker has read anything since that checkpoint: it is the final one already.
        reason = "stopped while recovering: the last checkpoint is complete"
        step = stopping.enter_stopping_by_kill(facts, now_ms, reason=reason)
        return replace(step, notes=notes)
    entered = compiling.enter_compiling(facts, event, now_ms, reason="checkpoint prepared")
    return replace(entered, notes=notes)


def _at_once(state: Recovering, now_ms: int) -> Step[Recovering]:
    """A person wants it now: no waiting, and the whole restart budget again."""
    facts = replace(state.facts, restarts_used=0, stop_with_checkpoint=False)
    now = replace(state, facts=facts, not_before_ms=min(state.not_before_ms, now_ms))
    return Step(now) if state.phase == "killing" else _prepare(now, now_ms)
