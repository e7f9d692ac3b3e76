"""A job's history: every change of state with its reason and duration, and what was noted."""

from __future__ import annotations

from headgate.controller.applying import Change
from headgate.controller.rules.notes import (
    AbortNote,
    CheckpointNote,
    CleanupNote,
    ExecutorsNote,
    Note,
    PhaseNote,
    ResumedNote,
    SavepointNote,
    SkippedNote,
)
from headgate.core.errors import ErrorInfo
from headgate.core.ids import Generation
from headgate.core.model import model

TRANSITION = "transition"
# What an entry may be; each is kept for a time of its own.
ENTRY_KINDS = (TRANSITION, "phase", "abort", "savepoint", "cleanup", "skipped", "executors")


@model
class Transition:
    """The job entered another state. `duration_ms` is how long it had been in the one before."""

    before: str
    after: str
    reason: str
    duration_ms: int
    generation: Generation
    error: ErrorInfo | None = None


@model
class HistoryEntry:
    at_ms: int
    kind: str
    transition: Transition | None = None
    phase: PhaseNote | None = None
    abort: AbortNote | None = None
    savepoint: SavepointNote | None = None
    cleanup: CleanupNote | None = None
    skipped: SkippedNote | None = None
    executors: ExecutorsNote | None = None


def entries_of(change: Change) -> list[HistoryEntry]:
    """Return what a step adds to the history."""
    # Checkpoints have a table of their own, and what is resumed from is one of them.
    entries = [
        _noted(note, change.at_ms)
        for note in change.notes
        if not isinstance(note, CheckpointNote | ResumedNote) and not _is_routine(note)
    ]
    if change.moved:
        after = change.after
        failed = after.kind in ("recovering", "failing", "failed")
        transition = Transition(
            before=change.before.kind,
            after=after.kind,
            reason=change.reason,
            duration_ms=change.at_ms - change.before.facts.entered_ms,
            generation=after.facts.generation,
            error=after.facts.last_error if failed else None,
        )
        entries.append(HistoryEntry(at_ms=change.at_ms, kind=TRANSITION, transition=transition))
    return entries


def _is_routine(note: Note) -> bool:
    """Whether a cleanup did nothing worth telling."""
    return (
        isinstance(note, CleanupNote)
        and not note.objects_deleted
        and not note.held_up_ms
        and note.failure is None
    )


def _noted(
    note: PhaseNote | AbortNote | SavepointNote | CleanupNote | SkippedNote | ExecutorsNote,
    at_ms: int,
) -> HistoryEntry:
    match note:
        case PhaseNote():
            return HistoryEntry(at_ms=at_ms, kind="phase", phase=note)
        case AbortNote():
            return HistoryEntry(at_ms=at_ms, kind="abort", abort=note)
        case SavepointNote():
            return HistoryEntry(at_ms=at_ms, kind="savepoint", savepoint=note)
        case CleanupNote():
            return HistoryEntry(at_ms=at_ms, kind="cleanup", cleanup=note)
        case SkippedNote():
            return HistoryEntry(at_ms=at_ms, kind="skipped", skipped=note)
        case ExecutorsNote():
            return HistoryEntry(at_ms=at_ms, kind="executors", executors=note)
