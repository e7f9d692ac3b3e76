"""The watermark waits for every source that has, or may have, something to say."""

from __future__ import annotations

from headgate.core.checkpoint import WATERMARK_MAX
from headgate.engine.worker.rules.facts import BatchDone
from headgate.engine.worker.rules.watermark import GAP_PARTS, Watermark
from tests.unit.engine.worker.rules.worker_life import IDLE_MS, LEFT, RIGHT, Life, cuts


def _watermark(left: int, right: int) -> Watermark:
    return Watermark.restored((LEFT, RIGHT), IDLE_MS, {LEFT: left, RIGHT: right})


def _looked(
    watermark: Watermark, now_ms: int, *, left: bool = True, right: bool = False
) -> Watermark:
    looked = watermark.with_look(LEFT, has_rows=left, now_ms=now_ms)
    return looked.with_look(RIGHT, has_rows=right, now_ms=now_ms).advanced()


def test_it_is_the_lowest_of_the_sources_and_never_goes_back() -> None:
    watermark = _watermark(9, 5).advanced()
    assert watermark.reached == 5
    assert watermark.with_rows(RIGHT, 3).advanced().reached == 5
    assert watermark.with_rows(RIGHT, 8).advanced().reached == 8


def test_a_source_that_has_ended_no_longer_counts() -> None:
    watermark = _watermark(9, 5).with_end(RIGHT).advanced()
    assert watermark.reached == 9
    assert watermark.with_end(LEFT).advanced().reached == WATERMARK_MAX


def test_a_source_that_has_nothing_to_read_for_long_holds_nobody_back() -> None:
    watermark = _watermark(9, 5)
    for now_ms in range(0, IDLE_MS, 250):
        watermark = _looked(watermark, now_ms)
        assert watermark.reached == 5
    assert _looked(watermark, IDLE_MS).reached == 9


def test_a_source_with_a_backlog_is_not_idle_however_long_the_micro_batch_took() -> None:
    watermark = _looked(_watermark(9, 5), 0)
    assert _looked(watermark, 10 * IDLE_MS, right=True).reached == 5


def test_a_clock_that_leaps_makes_no_source_idle() -> None:
    watermark = _looked(_watermark(9, 5), 0)
    for leap in range(1, GAP_PARTS):
        watermark = _looked(watermark, leap * 100 * IDLE_MS)
        assert watermark.reached == 5


def test_a_clock_that_goes_back_counts_for_nothing() -> None:
    watermark = _looked(_looked(_watermark(9, 5), 10**9), 0)
    assert watermark.quiet_ms[RIGHT] == 0


def test_rows_that_wait_behind_a_slow_micro_batch_are_not_late() -> None:
    """It had nothing at one cut, the micro-batch took long, and at the next it has rows."""
    life = Life()
    life.begin()
    life.tell(cuts({LEFT: 1, RIGHT: 1}, known={LEFT: 100, RIGHT: 10}))
    life.tell(BatchDone(1.0))
    life.tell(cuts({LEFT: 2, RIGHT: 1}, known={LEFT: 200}))
    life.tell(BatchDone(1.0), after_ms=10 * IDLE_MS)
    (run,) = life.tell(cuts({LEFT: 3, RIGHT: 9}, known={LEFT: 300}))
    assert run.cut.watermark == 10
