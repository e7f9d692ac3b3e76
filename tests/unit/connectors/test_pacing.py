"""Cuts of sources that make their rows: bounded, at a rate, replayable."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.connectors.pacing import RatePosition, plan_rate_cut


def test_without_a_rate_a_cut_takes_what_it_may() -> None:
    cut = plan_rate_cut(RatePosition(counter=5), rows_max=10, now_ms=1, event_rate=None, limit=None)
    assert (cut.end, cut.rows, cut.lag_rows) == ({"counter": 15, "started_ms": 1}, 10, None)
    assert not cut.finished


def test_rate_makes_rows_due_as_time_passes() -> None:
    position = RatePosition(counter=0)
    first = plan_rate_cut(position, rows_max=100, now_ms=1_000, event_rate=10, limit=None)
    assert first.end == {"counter": 1, "started_ms": 1_000}
    later = plan_rate_cut(
        RatePosition.parse(first.end), rows_max=100, now_ms=2_050, event_rate=10, limit=None
    )
    assert later.end == {"counter": 11, "started_ms": 1_000}
    assert later.rows == 10


def test_nothing_due_leaves_the_position_as_it_was() -> None:
    position = RatePosition(counter=3, started_ms=1_000)
    cut = plan_rate_cut(position, rows_max=100, now_ms=1_050, event_rate=10, limit=None)
    assert RatePosition.parse(cut.end) == position
    assert not cut.finished


def test_rows_behind_the_limit_of_a_cut_are_the_lag() -> None:
    position = RatePosition(counter=0, started_ms=0)
    cut = plan_rate_cut(position, rows_max=100, now_ms=60_000, event_rate=10, limit=None)
    assert (cut.rows, cut.lag_rows) == (100, 501)


def test_a_clock_that_went_back_takes_nothing_back() -> None:
    position = RatePosition(counter=50, started_ms=10_000)
    cut = plan_rate_cut(position, rows_max=100, now_ms=5_000, event_rate=10, limit=None)
    assert RatePosition.parse(cut.end) == position


def test_no_rows_at_all_is_finished_at_once() -> None:
    cut = plan_rate_cut(RatePosition(counter=0), rows_max=9, now_ms=0, event_rate=None, limit=0)
    assert cut.finished
    assert cut.rows == 0


@settings(deadline=None)
@given(
    limit=st.integers(0, 500),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=20),
    steps=st.lists(st.integers(0, 2_000), min_size=1, max_size=20),
    rate=st.none() | st.floats(0.5, 1_000),
)
def test_cuts_cover_every_row_once(
    limit: int, sizes: list[int], steps: list[int], rate: float | None
) -> None:
    position, now_ms, covered = RatePosition(counter=0), 0, 0
    for turn in range(10_000):
        size, step = sizes[turn % len(sizes)], steps[turn % len(steps)] + 101
        cut = plan_rate_cut(position, rows_max=size, now_ms=now_ms, event_rate=rate, limit=limit)
        end = RatePosition.parse(cut.end)
        assert 0 <= end.counter - position.counter == cut.rows <= size
        covered += cut.rows
        position, now_ms = end, now_ms + step
        if cut.finished:
            break
    assert covered == limit
