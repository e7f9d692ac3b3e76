"""What the job has done so far, for heartbeats and metrics: counted on from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from headgate.core.checkpoint import OperatorProgress, RowTotals
from headgate.core.dropped import DroppedRow, with_examples
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.messages import Progress, Start
from headgate.engine.worker.rules.facts import BatchDone, SubtaskWork


def first_progress(start: Start) -> Progress:
    """Return where the counting goes on: at the checkpoint that the generation resumes from."""
    cut = start.plan.cut
    resumed = Progress() if cut is None else replace(Progress(), watermark=cut.watermark)
    totals = None if cut is None else cut.totals
    return resumed if totals is None else at_totals(resumed, totals, start.graph)


def at_totals(progress: Progress, totals: RowTotals, graph: PipelineGraph) -> Progress:
    """Return the progress with the counts of a checkpoint, without operators that are gone."""
    known = {operator.id for operator in graph.operators}
    return replace(
        progress,
        rows_in=totals.rows_in,
        rows_out=totals.rows_out,
        rows_late=totals.rows_late,
        rows_bad=totals.rows_bad,
        operators={o: counted for o, counted in totals.operators.items() if o in known},
    )


def totals_of(progress: Progress) -> RowTotals:
    """Return what a checkpoint keeps of the progress."""
    return RowTotals(
        rows_in=progress.rows_in,
        rows_out=progress.rows_out,
        rows_late=progress.rows_late,
        rows_bad=progress.rows_bad,
        operators=dict(progress.operators),
    )


def after_batch(
    past: Progress,
    done: BatchDone,
    *,
    sinks: Set[OperatorId],
    watermark: int | None,
    lag_rows: int | None,
    lags: Mapping[OperatorId, Mapping[str, int]],
) -> Progress:
    """Return the progress with one more micro-batch in it."""
    works = done.subtasks.values()
    rows = sum(seen.rows for seen in done.observed.values())
    samples = (seen.bad_sample for seen in done.observed.values())
    out = (work.rows_in for (operator, _), work in done.subtasks.items() if operator in sinks)
    return Progress(
        batches=past.batches + 1,
        batches_repeated=past.batches_repeated + done.repeated,
        rows_in=past.rows_in + rows,
        rows_out=past.rows_out + sum(out),
        rows_late=past.rows_late + sum(work.rows_late for work in works),
        rows_bad=past.rows_bad + sum(seen.bad for seen in done.observed.values()),
        bad_sample=next(filter(None, samples), past.bad_sample),
        dropped=with_examples(past.dropped, _examples(done)),
        watermark=watermark,
        lag_rows=lag_rows,
        lags={source: dict(parts) for source, parts in lags.items()},
        last_batch_ms=done.elapsed_ms,
        last_batch_rows=rows,
        timings=dict(done.timings) | _slowest(done),
        operators=_by_operator(past.operators, done),
    )


def _by_operator(
    past: Mapping[OperatorId, OperatorProgress], done: BatchDone
) -> dict[OperatorId, OperatorProgress]:
    counted = dict(past)

    def add(
        operator: OperatorId, rows_in: int, rows_out: int, *, late: int = 0, bad: int = 0
    ) -> None:
        before = counted.get(operator, OperatorProgress())
        counted[operator] = OperatorProgress(
            rows_in=before.rows_in + rows_in,
            rows_out=before.rows_out + rows_out,
            rows_late=before.rows_late + late,
            rows_bad=before.rows_bad + bad,
        )

    for source, seen in done.observed.items():
        add(source, seen.rows, seen.rows - seen.bad, bad=seen.bad)
    for (operator, _), work in done.subtasks.items():
        add(operator, work.rows_in, work.rows_out, late=work.rows_late)
    return counted


def _examples(done: BatchDone) -> Iterator[DroppedRow]:
    for seen in done.observed.values():
        yield from seen.samples
    for work in done.subtasks.values():
        yield from work.late


def _slowest(done: BatchDone) -> dict[str, float]:
    """Return how long the slowest subtask worked on its state, and on writing to the store."""

    def longest(*names: str) -> float:
        return max((_sum(work, names) for work in done.subtasks.values()), default=0.0)

    return {
        "state_ms": longest("compute_ms", "snapshot_ms"),
        "upload_ms": longest("upload_ms"),
    }


def _sum(work: SubtaskWork, names: tuple[str, ...]) -> float:
    return sum(work.timings.get(name, 0.0) for name in names)
