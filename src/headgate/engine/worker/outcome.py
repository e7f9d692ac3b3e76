"""What the rules are told of sources and of micro-batches: the engine's answers as plain facts."""

from __future__ import annotations

from headgate.connectors.base import SourceCut
from headgate.core.checkpoint import TableState
from headgate.engine.batch.context import PipelineState
from headgate.engine.batch.microbatch import BatchResult
from headgate.engine.batch.reports import SubtaskReport
from headgate.engine.plan.observed import SourceObserved
from headgate.engine.worker.rules.facts import (
    BatchDone,
    Place,
    PlannedCut,
    RowsSeen,
    SubtaskWork,
)
from headgate.state.tables.version import state_from_version


def planned_cut(cut: SourceCut, known: SourceObserved | None) -> PlannedCut:
    return PlannedCut(
        end=cut.end,
        rows=cut.rows,
        lag_rows=cut.lag_rows,
        lags=cut.lags,
        finished=cut.finished,
        known=None if known is None else _seen(known),
        step=cut.step,
    )


def batch_done(result: BatchResult, elapsed_ms: float) -> BatchDone:
    state = result.state
    scratch = any(v.scratch for versions in state.tables.values() for v in versions)
    return BatchDone(
        elapsed_ms=elapsed_ms,
        observed={source: _seen(seen) for source, seen in result.observed.items()},
        subtasks={place: _work(report) for place, report in result.reports.items()},
        staged=result.staged,
        tables=None if scratch else _durable_tables(state),
        next_timer=state.next_timer(),
        unflushed=scratch or bool(state.buffers),
        timings=result.timings,
        repeated=result.repeated,
    )


def _durable_tables(state: PipelineState) -> dict[Place, tuple[TableState, ...]]:
    return {
        place: tuple(state_from_version(version) for version in versions)
        for place, versions in state.tables.items()
    }


def _seen(seen: SourceObserved) -> RowsSeen:
    return RowsSeen(seen.watermark, seen.rows, seen.bad, seen.bad_sample, seen.samples)


def _work(report: SubtaskReport) -> SubtaskWork:
    return SubtaskWork(
        rows_in=report.rows_in,
        rows_out=report.rows_out,
        rows_late=report.rows_late,
        late=report.late,
        new_objects=report.new_objects,
        new_bytes=report.new_bytes,
        timings=report.timings,
    )
