"""A job's rows are counted on from the checkpoint that a generation resumes from."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.checkpoint import (
    BatchCut,
    EpochCut,
    EpochReplay,
    LoadingPlan,
    OperatorProgress,
    RowTotals,
)
from headgate.core.ids import Epoch, OperatorId
from headgate.core.messages import Heartbeat
from headgate.engine.worker.rules.actions import Acknowledge
from headgate.engine.worker.rules.facts import BatchDone, Begun, RowsSeen, SubtaskWork
from tests.unit.engine.worker.rules.worker_life import LEFT, RIGHT, SINK, Life, barrier, cuts, plan

BEFORE = RowTotals(
    rows_in=100,
    rows_out=40,
    rows_late=3,
    rows_bad=2,
    operators={
        LEFT: OperatorProgress(rows_in=100, rows_out=98),
        OperatorId("gone"): OperatorProgress(rows_in=7),
    },
)
DONE = BatchDone(
    1.0,
    observed={LEFT: RowsSeen(None, rows=10, bad=1)},
    subtasks={(SINK, 0): SubtaskWork(rows_in=5, rows_late=1)},
)


def resumed(totals: RowTotals | None) -> LoadingPlan:
    return replace(plan(checkpoint=4), cut=EpochCut(batches=(), watermark=7, totals=totals))


def test_counts_are_shown_before_the_first_micro_batch() -> None:
    progress = Life(resumed(BEFORE)).state.progress
    assert (progress.rows_in, progress.rows_out, progress.rows_late) == (100, 40, 3)
    assert (progress.rows_bad, progress.watermark, progress.batches) == (2, 7, 0)
    # A changed query has dropped the other one.
    assert set(progress.operators) == {LEFT}


def test_checkpoint_keeps_what_all_generations_have_done() -> None:
    life = Life(resumed(BEFORE))
    life.begin()
    life.tell(barrier(5))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    life.tell(DONE)
    (said,) = life.all(Acknowledge)
    totals = said.cut.cut.totals
    assert totals is not None
    assert (totals.rows_in, totals.rows_out) == (110, 45)
    assert (totals.rows_late, totals.rows_bad) == (4, 3)
    assert totals.operators[LEFT] == OperatorProgress(rows_in=110, rows_out=107, rows_bad=1)
    (beat,) = (message for message in life.sent() if isinstance(message, Heartbeat))
    assert beat.progress.rows_in == 110


def test_checkpoint_of_an_older_version_has_no_counts_and_they_begin_with_0() -> None:
    progress = Life(resumed(None)).state.progress
    assert (progress.rows_in, progress.watermark) == (0, 7)


def test_rebuilt_epoch_counts_as_it_did_the_first_time() -> None:
    cut = BatchCut(start={LEFT: 0, RIGHT: 0}, end={LEFT: 1, RIGHT: 0}, watermark=7)
    rebuilt = EpochCut(batches=(cut,), watermark=7, totals=BEFORE)
    life = Life(plan(checkpoint=4, replays=[EpochReplay(epoch=Epoch(5), cut=rebuilt)]))
    life.tell(Begun())
    life.begin()
    # Its output is suppressed, so that what runs again does not say what it came to.
    life.tell(BatchDone(1.0, observed={LEFT: RowsSeen(None, rows=10)}))
    assert life.state.progress.rows_out == 40
    assert life.state.progress.rows_in == 100
