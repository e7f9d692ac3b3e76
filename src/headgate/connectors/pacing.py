"""Positions and cuts of sources that make their rows: by number, bounded, at a rate. Pure."""

from __future__ import annotations

from headgate.connectors.base import SourceCut
from headgate.core.model import JsonValue, from_python, model, to_python


@model
class RatePosition:
    """The next row's number, and when the first one was due (None before the first cut)."""

    counter: int
    started_ms: int | None = None

    @classmethod
    def parse(cls, position: JsonValue) -> RatePosition:
        parsed: RatePosition = from_python(cls, position)
        return parsed


def plan_rate_cut(
    position: RatePosition,
    *,
    rows_max: int,
    now_ms: int,
    event_rate: float | None,
    limit: int | None,
) -> SourceCut:
    """Take what is due by now: row n is due n / rate seconds after the start.

    The start is part of the position. So after a pause the rows of the pause are due at once,
    and a replay gives the rows the times they had.
    """
    started_ms = now_ms if position.started_ms is None else position.started_ms
    due = limit
    if event_rate is not None:
        due_by_rate = int(max(0, now_ms - started_ms) * event_rate / 1_000) + 1
        due = due_by_rate if limit is None else min(due_by_rate, limit)
    end = position.counter + rows_max if due is None else min(due, position.counter + rows_max)
    end = max(end, position.counter)
    finished = limit is not None and end >= limit
    if end == position.counter:
        return SourceCut(end=to_python(position), rows=0, lag_rows=0, finished=finished)
    return SourceCut(
        end=to_python(RatePosition(counter=end, started_ms=started_ms)),
        rows=end - position.counter,
        lag_rows=None if due is None else due - end,
        finished=finished,
    )
