"""Durations as people write them: `10s`, `500ms`, `2 minutes`, `0`."""

from __future__ import annotations

import re

from headgate.core.errors import UserError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAMES = {
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
}


def parse_duration_ms(text: str) -> int:
    """Parse a duration; a bare number is seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match:
        unit = match[2] or "s"
        unit = _NAMES.get(unit.removesuffix("s"), unit) if unit not in _UNITS_MS else unit
        if unit in _UNITS_MS:
            return round(float(match[1]) * _UNITS_MS[unit])
    raise UserError(
        f"'{text}' is not a duration: write for example 10s, 500ms or 2m", code="duration"
    )


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
