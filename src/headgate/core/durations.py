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
