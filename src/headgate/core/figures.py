"""Figures as people read them: sizes and event times. Durations have a file of their own."""

from __future__ import annotations

from datetime import UTC, datetime

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN


def format_bytes(count: float) -> str:
    """Format a size for a person."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def format_watermark(watermark: int | None) -> str:
    """Format an event time in microseconds."""
    if watermark is None or watermark <= WATERMARK_MIN:
        return "-"
    if watermark >= WATERMARK_MAX:
        return "end of data"
    moment = datetime.fromtimestamp(watermark / 1_000_000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S")
