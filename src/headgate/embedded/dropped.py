"""What a person is told of rows that were left out: how many, and a few of them."""

from __future__ import annotations

from headgate.core.dropped import DroppedRow
from headgate.core.durations import format_duration
from headgate.core.figures import format_watermark
from headgate.core.messages import Progress


def dropped_summary(progress: Progress) -> list[str]:
    """Return the lines about rows that were left out: the counts by operator, and examples."""
    lines = []
    for operator, counted in progress.operators.items():
        if counted.rows_bad:
            lines.append(f"{operator}: {_rows(counted.rows_bad)} could not be read")
            lines += _examples(progress, operator, "bad")
        if counted.rows_late:
            lines.append(f"{operator}: {_rows(counted.rows_late)} came too late")
            lines += _examples(progress, operator, "late")
    return lines


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _examples(progress: Progress, operator: str, why: str) -> list[str]:
    found = [row for row in progress.dropped if (row.operator, row.why) == (operator, why)]
    return [f"  for example {_described(row)}" for row in found]


def _described(row: DroppedRow) -> str:
    parts = [row.position, row.reason]
    if row.time_us is not None:
        late = "" if row.late_us is None else f", {format_duration(row.late_us / 1_000)} behind"
        parts.append(f"of {format_watermark(row.time_us)}{late}")
    parts.append(row.raw)
    return ": ".join(part for part in parts if part)
