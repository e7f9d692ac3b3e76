"""Fixed lengths of time as SQL writes them: `INTERVAL '5 seconds'`, `'1 hour 30 minutes'`.

Not `core/durations.py`, because SQL also has signs, clocks and weeks, and errors with a position.
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from headgate.planner.errors import error_at

_UNITS_US = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "hr": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)?")
_CLOCK = re.compile(r"\s*(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?\s*$")


def interval_us(node: exp.Expr) -> int:
    """Return the length in microseconds. Months and years have no fixed length: an error."""
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Cast) and inner.to.is_type(exp.DType.INTERVAL):
        inner = inner.this
    if isinstance(inner, exp.Interval):
        value, unit = inner.this, inner.args.get("unit")
        if not isinstance(value, exp.Literal) or (unit and not isinstance(unit, exp.Var)):
            raise error_at(node, "an interval here must be a constant, like INTERVAL '5 seconds'")
        return parse_interval_us(value.name, unit.name if unit else None, node)
    if isinstance(inner, exp.Literal) and inner.is_string:
        return parse_interval_us(inner.name, None, node)
    raise error_at(node, "expected an interval, like INTERVAL '5 seconds'")


def parse_interval_us(text: str, unit: str | None, node: exp.Expr | None = None) -> int:
    """Parse `5 seconds`, or `5` with the unit given; `01:30:00` is a clock's way to write it."""
    if unit is not None:
        text = f"{text} {unit}"
    clock = _CLOCK.match(text)
    if clock:
        seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + Decimal(clock[3] or 0)
        return int(seconds * 1_000_000)
    total, position = Decimal(0), 0
    while position < len(text.rstrip()):
        part = _PART.match(text, position)
        if part is None:
            raise error_at(node, f"'{text}' is not an interval: write for example '5 seconds'")
        total += Decimal(part[1]) * _unit_us(part[2] or "second", text, node)
        position = part.end()
    if not text.strip():
        raise error_at(node, "an interval is empty: write for example '5 seconds'")
    return int(total)


def _unit_us(word: str, text: str, node: exp.Expr | None) -> int:
    lower = word.lower()
    unit = lower if lower in _UNITS_US else lower.removesuffix("s")
    if unit in _UNITS_US:
        return _UNITS_US[unit]
    if unit in ("month", "year", "mon", "quarter"):
        raise error_at(node, f"'{text}' has no fixed length: use days or smaller units")
    raise error_at(node, f"'{text}' is not an interval: '{word}' is not a unit of time")
