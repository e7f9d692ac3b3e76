"""Pieces of the logs that workers of this machine write."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.core.model import model

_NAME = re.compile(r"worker-(\d+)\.log")


@model
class LogFound:
    """A piece of a log, and the generations that have one beside it."""

    found: bool
    generations: tuple[int, ...] = ()
    offset: int = 0
    next_offset: int = 0
    size: int = 0
    text: str = ""


def read_log(path: Path, offset: int | None, bytes_max: int) -> LogFound:
    """Read from `offset` on, or the end of the log."""
    generations = tuple(
        sorted(
            int(match[1])
            for file in (path.parent.iterdir() if path.parent.is_dir() else ())
            if (match := _NAME.fullmatch(file.name))
        )
    )
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - bytes_max) if offset is None else min(offset, size)
            file.seek(start)
            data = file.read(bytes_max)
    except FileNotFoundError:
        return LogFound(found=False, generations=generations)
    return LogFound(
        found=True,
        generations=generations,
        offset=start,
        next_offset=start + len(data),
        size=size,
        text=data.decode(errors="replace"),
    )
