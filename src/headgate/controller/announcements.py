"""What subscribers hear while jobs run. Nothing depends on their hearing it."""

from __future__ import annotations

from headgate.controller.rules.notes import Note
from headgate.core.ids import Generation, JobId
from headgate.core.messages import Progress
from headgate.core.model import model


@model
class StateChanged:
    job: JobId
    at_ms: int
    before: str
    after: str
    reason: str


@model
class Noted:
    """A checkpoint, a phase of a recovery, a savepoint, a cleanup, ..."""

    job: JobId
    at_ms: int
    note: Note


@model
class ProgressMade:
    """From the worker's heartbeat."""

    job: JobId
    at_ms: int
    generation: Generation
    progress: Progress


Announcement = StateChanged | Noted | ProgressMade
