"""Pieces of a worker's log."""

from __future__ import annotations

from headgate.controller.processes.logs import LogFound
from headgate.core.errors import UserError
from headgate.core.ids import Generation
from headgate.server.schemas import LogPage


def log_page(found: LogFound, generation: Generation) -> LogPage:
    """Return what was found as an answer. Raises `UserError` if there is none."""
    if not found.found:
        raise UserError(
            f"there is no log of generation {generation} here: it did not start, or ran on a"
            " machine that cannot be reached",
            code="no_such_log",
        )
    return LogPage(
        generation=generation,
        generations=list(found.generations),
        offset=found.offset,
        next_offset=found.next_offset,
        size=found.size,
        text=found.text,
    )
