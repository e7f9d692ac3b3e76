"""How the commands print: tables, figures, and JSON that is nothing but JSON."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.core.durations import format_duration
from headgate.core.figures import format_bytes, format_watermark

__all__ = [
    "count",
    "files",
    "format_age",
    "format_bytes",
    "format_duration",
    "format_moment",
    "format_watermark",
    "print_json",
    "print_table",
    "standard_console",
]

# Lines that go into a file or another program are not folded.
UNBOUNDED_WIDTH = 10_000


def standard_console() -> Console:
    """Return the console for output: as wide as the terminal, unbounded if there is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else UNBOUNDED_WIDTH)


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
) -> None:
    """Print rows under their column names; the columns `right` are figures. Text is not markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console.print(table)


def print_json(value: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(_plain(value), indent=2) + "\n")


def _plain(value: object) -> Any:
    """Turn what a state table may hold into JSON; what JSON cannot say becomes text."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be printed as JSON")


def count(number: int, one: str, many: str | None = None) -> str:
    """Write `1 file`, `2 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def files(objects: int, size: int) -> str:
    """Write `3 files, 1.2 MB`."""
    return f"{count(objects, 'file')}, {format_bytes(size)}"


def format_age(milliseconds: int) -> str:
    """Format how long ago something was; what is in the future is the work of another clock."""
    hours = milliseconds / 3_600_000
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return format_duration(max(0, milliseconds))


def format_moment(milliseconds: int) -> str:
    """Format wall-clock milliseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
