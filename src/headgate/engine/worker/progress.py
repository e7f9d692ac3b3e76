"""What a generation has done so far, for heartbeats and metrics."""

from __future__ import annotations

from collections.abc import Set

from headgate.core.ids import OperatorId
from headgate.core.messages import OperatorProgress, Progress
from headgate.engine.batch.microbatch import BatchResult
from headgate.engine.batch.reports import Reports


def after_batch(
    past: Progress,
    result: BatchResult,
    *,
    sinks: Set[OperatorId],
    elapsed_ms: float,
    watermark: int | None,
    lag_rows: int | None,
) -> Progress:
    """Return the progress with one more micro-batch in it."""
    reports = result.reports.values()
    rows = sum(seen.rows for seen in result.observed.values())
    samples = (seen.bad_sample for seen in result.observed.values())
    return Progress(
        batches=past.batches + 1,
        rows_in=past.rows_in + rows,
        rows_out=past.rows_out + sum(r.rows_in for r in reports if r.operator in sinks),
        rows_late=past.rows_late + sum(r.rows_late for r in reports),
        rows_bad=past.rows_bad + sum(seen.bad for seen in result.observed.values()),
        bad_sample=next(filter(None, samples), past.bad_sample),
        watermark=watermark,
        lag_rows=lag_rows,
        last_batch_ms=elapsed_ms,
        last_batch_rows=rows,
        timings=result.timings | _slowest(result.reports),
        operators=_by_operator(past.operators, result),
    )


def _by_operator(
    past: dict[OperatorId, OperatorProgress], result: BatchResult
) -> dict[OperatorId, OperatorProgress]:
    counted = dict(past)

    def add(operator: OperatorId, rows_in: int, rows_out: int, rows_late: int) -> None:
        before = counted.get(operator, OperatorProgress())
        counted[operator] = OperatorProgress(
            rows_in=before.rows_in + rows_in,
            rows_out=before.rows_out + rows_out,
            rows_late=before.rows_late + rows_late,
        )

    for source, seen in result.observed.items():
        add(source, seen.rows, seen.rows - seen.bad, 0)
    for report in result.reports.values():
        add(report.operator, report.rows_in, report.rows_out, report.rows_late)
    return counted


def _slowest(reports: Reports) -> dict[str, float]:
    """Return how long the slowest subtask worked on its state, and on writing to the store."""
    times = [report.timings for report in reports.values()]
    state = (t.get("compute_ms", 0.0) + t.get("snapshot_ms", 0.0) for t in times)
    return {
        "state_ms": max(state, default=0.0),
        "upload_ms": max((t.get("upload_ms", 0.0) for t in times), default=0.0),
    }
