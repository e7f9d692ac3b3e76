"""After a failure: recover, or give up. The one place that spends the restart budget."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.controller.rules.events import LoadPlanned
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import UNLIMITED
from headgate.controller.rules.outcome import Step
from headgate.controller.rules.states import failing, recovering
from headgate.core.backoff import backoff_ms, roll
from headgate.core.errors import DAMAGE_CODES, ErrorDomain, ErrorInfo, RetryHint
from headgate.core.ids import NO_EPOCH
from headgate.core.space import ADVICE, NO_SPACE

if TYPE_CHECKING:
    from headgate.controller.rules.states.failing import Failing
    from headgate.controller.rules.states.recovering import Recovering

# A defect that came so often in a row before there was any checkpoint will not pass.
SAME_DEFECTS_MAX = 3
# These say that somebody else was there, or what has become of files, nothing about the job.
_NO_DEFECTS = DAMAGE_CODES | {"fenced", "epoch_taken", "worker_ended"}
# How soon a job that waits for space is tried again: a start of a worker that will fail costs more
# than a person waits for gladly.
SPACE_RETRY_MS = 2_000
SPACE_RETRY_MS_MAX = 15_000
# Numbers differ from one time to the next: attempts, times, addresses.
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


def recover_or_fail(
    facts: JobFacts,
    error: ErrorInfo,
    now_ms: int,
    *,
    source: ErrorInfo | None = None,
) -> Step[Recovering | Failing]:
    """Recover if the error allows it and the budget is not spent; otherwise give up.

    A defect that comes back unchanged before the first checkpoint is given up early, so that it is
    reported in seconds. `source` is the error that began a row of failed recoveries.
    """
    limits = facts.limits
    if error.code == NO_SPACE:
        return _wait_for_space(facts, error, now_ms, source=source)
    if error.retry is RetryHint.NO_RETRY:
        return failing.enter_failing(facts, error, now_ms)
    if limits.restarts_max != UNLIMITED and facts.restarts_used >= limits.restarts_max:
        message = f"gave up after {facts.restarts_used} restarts; the last error: {error.message}"
        spent = replace(error, message=message, retry=RetryHint.NO_RETRY)
        return failing.enter_failing(facts, spent, now_ms)
    same = _same_in_row(facts, error)
    if same >= SAME_DEFECTS_MAX and limits.restarts_max != UNLIMITED and _is_defect(facts, error):
        message = f"failed {same} times in the same way before the first checkpoint: "
        hopeless = replace(error, message=message + error.message, retry=RetryHint.NO_RETRY)
        return failing.enter_failing(facts, hopeless, now_ms)
    n = facts.restarts_used
    delay_ms = backoff_ms(
        initial_ms=limits.backoff_initial_ms,
        max_ms=limits.backoff_max_ms,
        n=n,
        roll=roll(facts.jitter_seed, n),
    )
    return recovering.enter_recovering(
        replace(facts, restarts_used=n + 1, last_error=error, same_failures=same),
        source=error if source is None else source,
        reason=error.message,
        delay_ms=delay_ms,
        now_ms=now_ms,
    )


def _wait_for_space(
    facts: JobFacts, error: ErrorInfo, now_ms: int, *, source: ErrorInfo | None
) -> Step[Recovering]:
    """Try again until a person has freed some space: no budget, because no try is its fault."""
    last = facts.last_error
    again = facts.same_failures if last is not None and last.code == NO_SPACE else 0
    delay_ms = backoff_ms(
        initial_ms=SPACE_RETRY_MS,
        max_ms=SPACE_RETRY_MS_MAX,
        n=again,
        roll=roll(facts.jitter_seed, again),
    )
    return recovering.enter_recovering(
        replace(facts, last_error=error, same_failures=again + 1),
        source=error if source is None else source,
        reason=f"{error.message}; {ADVICE}",
        delay_ms=delay_ms,
        now_ms=now_ms,
    )


def _same_in_row(facts: JobFacts, error: ErrorInfo) -> int:
    """Return how often this error has come in a row, this time included."""
    last = facts.last_error
    if last is None or facts.restarts_used == 0 or _identity(last) != _identity(error):
        return 1
    return facts.same_failures + 1


def _identity(error: ErrorInfo) -> tuple[str, str]:
    return error.code, _NUMBERS.sub("#", error.message)


def _is_defect(facts: JobFacts, error: ErrorInfo) -> bool:
    """Whether trying again is not worth the wait: nothing has ever worked, nobody interfered.

    A job that had a checkpoint has shown that it can run; what fails outside may come back.
    """
    never_worked = facts.last_epoch == NO_EPOCH
    return never_worked and error.domain is ErrorDomain.INTERNAL and error.code not in _NO_DEFECTS


def lost_records(facts: JobFacts, prepared: LoadPlanned) -> ErrorInfo | None:
    """Return the error if storage no longer knows of an epoch that was recorded.

    To go on would give its number to other rows, although its output may be visible: rows would be
    missing, or there twice. A person who restarts without state has decided.
    """
    found, known = prepared.lineage.last_epoch, facts.last_epoch
    if found >= known or known <= facts.ignore_through:
        return None
    return ErrorInfo(
        message=f"the state store knows epochs up to {found}, but epoch {known} was recorded: its "
        "record was deleted, or this is another store. Put the files back (`headgate doctor --job "
        f"{facts.job} --repair` finds what can be rebuilt), or begin anew without the state: with "
        "`headgate run` under another --name, with a service by `headgate restart "
        f"{facts.job} --mode ignore_state`.",
        retry=RetryHint.NO_RETRY,
        code="records_lost",
    )


def lost_with_controller(facts: JobFacts, now_ms: int) -> Step[Recovering]:
    """The controller that ran this generation is gone. That is not the job's fault: no budget."""
    message = "taken up again after the controller that ran it ended"
    error = ErrorInfo(message=message, code="controller_restarted")
    return recovering.enter_recovering(
        facts, source=error, reason=message, delay_ms=0, now_ms=now_ms
    )
