"""What people write in Flink or in Spark, and how the same is said here."""

from __future__ import annotations

_START = "the window has fields: `tumble(...) AS w` inside, and `w.start` in the query around it"
_END = "the window has fields: `tumble(...) AS w` inside, and `w.end` in the query around it"

_FUNCTIONS = {
    "window": "write tumble(interval '10 seconds'), or hop(slide, width)",
    "session_window": "write session(interval '10 seconds')",
    "window_time": "write row_time()",
    "tumble_start": _START,
    "hop_start": _START,
    "session_start": _START,
    "tumble_end": _END,
    "hop_end": _END,
    "session_end": _END,
    "tumble_rowtime": "write row_time()",
    "hop_rowtime": "write row_time()",
    "session_rowtime": "write row_time()",
    "proctime": "write now()",
    "to_timestamp_ltz": "write timestamp_seconds() or timestamp_millis()",
}


def said_here(name: str) -> str:
    """Return the end of a message about a function of another system; empty if it is none."""
    instead = _FUNCTIONS.get(name.lower())
    return f": {instead}" if instead else ""
