"""Durations as people write them: `10s`, `500ms`, `2 minutes`, `1 minute 30 seconds`, `0`.

The one parser of settings and options. SQL intervals are another language: `planner/intervals.py`.
"""

from __future__ import annotations

import re
from decimal import Decimal

from headgate.core.errors import UserError

_UNITS_NS = {
    "ns": 1,
    "nanosecond": 1,
    "us": 1_000,
    "microsecond": 1_000,
    "ms": 1_000_000,
    "millisecond": 1_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "second": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "minute": 60_000_000_000,
    "h": 3_600_000_000_000,
    "hour": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "day": 86_400_000_000_000,
}
_NUMBER = re.compile(r"\s*\d+(?:\.\d+)?\s*")
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")


def parse_nanoseconds(text: str, *, bare_unit: str | None = None) -> int:
    """Parse into nanoseconds. Without `bare_unit` a number needs a unit. Raises `ValueError`."""
    if bare_unit is not None and _NUMBER.fullmatch(text):
        text = f"{text.strip()}{bare_unit}"
    total, position = Decimal(0), 0
    while position < len(text):
        part = _PART.match(text, position)
        unit = part[2].lower() if part else ""
        unit = unit if unit in _UNITS_NS else unit.removesuffix("s")
        if part is None or unit not in _UNITS_NS:
            raise ValueError(f"'{text}' is not a duration: write for example 10s, 500ms or 2m")
        total += Decimal(part[1]) * _UNITS_NS[unit]
        position = part.end()
    if position == 0:
        raise ValueError("a duration may not be empty: write for example 10s, 500ms or 2m")
    return int(total)


def parse_duration_ms(text: str) -> int:
    """Parse into milliseconds; a bare number is seconds. Raises `UserError`."""
    try:
        return round(parse_nanoseconds(text, bare_unit="s") / 1_000_000)
    except ValueError as error:
        raise UserError(str(error), code="duration") from error


def format_duration(milliseconds: float) -> str:
    """Format for a person: `340 ms`, `4.2 s`, `3 min 20 s`."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1_000), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_title(microseconds: int) -> str:
    """Write a length for people: `1h`, `90min`, `10s`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if microseconds % (length * 1_000_000) == 0:
            return f"{microseconds // (length * 1_000_000)}{unit}"
    return format_us(microseconds)


def format_us(microseconds: int) -> str:
    """Write a length as an error or an option shows it: `600s`, `500ms`."""
    if microseconds % 1_000_000 == 0:
        return f"{microseconds // 1_000_000}s"
    if microseconds % 1_000 == 0:
        return f"{microseconds // 1_000}ms"
    return f"{microseconds}us"
