"""A job's history, read for two questions: what went wrong, and how was it recovered?"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.controller.rules.notes import PhaseNote
from headgate.controller.store.history import HistoryEntry, Transition
from headgate.server.schemas import JobError, Recovery

LAST_PHASE = "resume"


def errors_of(history: Sequence[HistoryEntry]) -> list[JobError]:
    """Return the errors, newest first."""
    return [
        JobError(
            at_ms=entry.at_ms,
            generation=entry.transition.generation,
            state=entry.transition.after,
            error=entry.transition.error,
        )
        for entry in reversed(history)
        if entry.transition is not None and entry.transition.error is not None
    ]


def recoveries_of(history: Sequence[HistoryEntry]) -> list[Recovery]:
    """Group the phases by recovery, each with the failure that began it, oldest first."""
    failures: dict[int, tuple[int, Transition]] = {}
    phases: dict[int, list[PhaseNote]] = {}
    latest: tuple[int, Transition] | None = None
    for entry in history:
        if entry.transition is not None and entry.transition.after == "recovering":
            latest = (entry.at_ms, entry.transition)
        elif entry.phase is not None:
            number = entry.phase.recovery
            phases.setdefault(number, []).append(entry.phase)
            if latest is not None:
                # The phases of a recovery follow the failure that it is about.
                failures.setdefault(number, latest)
    return [_recovery(n, phases[n], failures.get(n)) for n in sorted(phases)]


def _recovery(
    number: int, phases: list[PhaseNote], failure: tuple[int, Transition] | None
) -> Recovery:
    started_ms = phases[0].started_ms if failure is None else failure[0]
    ended_ms = max(phase.started_ms + phase.duration_ms for phase in phases)
    return Recovery(
        number=number,
        reason=None if failure is None else failure[1].reason,
        started_ms=started_ms,
        duration_ms=max(0.0, ended_ms - started_ms),
        complete=phases[-1].phase == LAST_PHASE,
        phases=phases,
        failure=None if failure is None else failure[1],
    )
