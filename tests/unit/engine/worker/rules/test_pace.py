"""The size of micro-batches follows the backlog and the clock."""

from __future__ import annotations

import pytest

from headgate.engine.worker.rules.pace import FIRST_ROWS, WANTED_MS, BatchPace


def test_a_backlog_is_read_in_batches_that_grow_to_the_wanted_time() -> None:
    pace = BatchPace.first(10**9)
    assert pace.limit == FIRST_ROWS
    # A second for the batch itself and a millisecond for a thousand rows: a million fit.
    for _ in range(20):
        pace = pace.after(1_000 + pace.limit / 1_000, behind=True)
    assert pace.limit == pytest.approx(1_000_000, rel=0.01)


def test_growth_is_bounded_by_the_step_and_by_the_users_limit() -> None:
    pace = BatchPace.first(1_000_000).after(1, behind=True)
    assert pace.limit == 4 * FIRST_ROWS
    assert pace.after(1, behind=True).limit == 1_000_000


def test_nothing_grows_while_nothing_waits() -> None:
    assert BatchPace.first(10**9).after(1, behind=False).limit == FIRST_ROWS


def test_too_slow_a_batch_halves_the_next_but_not_below_the_first() -> None:
    pace = BatchPace(rows_max=10**9, limit=3 * FIRST_ROWS)
    for wanted in (3 * FIRST_ROWS // 2, FIRST_ROWS, FIRST_ROWS):
        pace = pace.after(2 * WANTED_MS + 1, behind=True)
        assert pace.limit == wanted


@pytest.mark.parametrize("elapsed_ms", [0.0, 1.0, 10**9])
def test_a_small_limit_of_the_user_is_kept(elapsed_ms: float) -> None:
    assert BatchPace.first(7).after(elapsed_ms, behind=True).limit == 7
