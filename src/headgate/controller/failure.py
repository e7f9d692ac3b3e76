"""After a failure: recover, or give up. The one place that spends the restart budget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.controller.backoff import backoff_ms, roll
from headgate.controller.facts import JobFacts
from headgate.controller.limits import UNLIMITED
from headgate.controller.outcome import Step
from headgate.controller.states import failing, recovering
from headgate.core.errors import ErrorInfo, RetryHint

if TYPE_CHECKING:
    from headgate.controller.states.failing import Failing
    from headgate.controller.states.recovering import Recovering


def recover_or_fail(
    facts: JobFacts,
    error: ErrorInfo,
    now_ms: int,
    *,
    source: ErrorInfo | None = None,
) -> Step[Recovering | Failing]:
    """Recover where the error allows it and the budget is not spent; otherwise give up.

    `source` is the error that began a row of failed recoveries.
    """
    limits = facts.limits
    if error.retry is RetryHint.NO_RETRY:
        return failing.enter_failing(facts, error, now_ms)
    if limits.restarts_max != UNLIMITED and facts.restarts_used >= limits.restarts_max:
        message = f"gave up after {facts.restarts_used} restarts; the last error: {error.message}"
        spent = replace(error, message=message, retry=RetryHint.NO_RETRY)
        return failing.enter_failing(facts, spent, now_ms)
    n = facts.restarts_used
    delay_ms = backoff_ms(
        initial_ms=limits.backoff_initial_ms,
        max_ms=limits.backoff_max_ms,
        n=n,
        roll=roll(facts.jitter_seed, n),
    )
    return recovering.enter_recovering(
        replace(facts, restarts_used=n + 1, last_error=error),
        source=error if source is None else source,
        reason=error.message,
        delay_ms=delay_ms,
        now_ms=now_ms,
    )


def lost_with_controller(facts: JobFacts, now_ms: int) -> Step[Recovering]:
    """The controller that ran this generation is gone. That is not the job's fault: no budget."""
    message = "taken up again after the controller that ran it ended"
    error = ErrorInfo(message=message, code="controller_restarted")
    return recovering.enter_recovering(
        facts, source=error, reason=message, delay_ms=0, now_ms=now_ms
    )
