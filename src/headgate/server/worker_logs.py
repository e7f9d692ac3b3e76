"""Pieces of a worker's log."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.core.errors import UserError
from headgate.core.ids import Generation
from headgate.server.schemas import LogPage

_NAME = re.compile(r"worker-(\d+)\.log")


def read_log_page(
    path: Path, generation: Generation, offset: int | None, bytes_max: int
) -> LogPage:
    """Read from `offset` on, or the end of the log. Raises `UserError` if there is none."""
    generations = sorted(
        int(match[1])
        for file in (path.parent.iterdir() if path.parent.is_dir() else ())
        if (match := _NAME.fullmatch(file.name))
    )
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - bytes_max) if offset is None else min(offset, size)
            file.seek(start)
            data = file.read(bytes_max)
    except FileNotFoundError as error:
        raise UserError(
            f"there is no log of generation {generation} here: it did not start, or ran elsewhere",
            code="no_such_log",
        ) from error
    return LogPage(
        generation=generation,
        generations=generations,
        offset=start,
        next_offset=start + len(data),
        size=size,
        text=data.decode(errors="replace"),
    )
