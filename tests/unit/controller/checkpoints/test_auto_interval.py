"""The checkpoint interval `auto`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.controller.checkpoints.auto_interval import FLOOR_MS, auto_interval_ms, smoothed


@given(
    cost_ms=st.floats(0, 10_000_000),
    restart_ms=st.floats(0, 10_000_000),
    recovery_time_ms=st.integers(0, 10_000_000),
)
def test_auto_interval_keeps_checkpoints_below_a_quarter_of_the_time(
    cost_ms: float, restart_ms: float, recovery_time_ms: int
) -> None:
    interval = auto_interval_ms(
        cost_ms=cost_ms, restart_ms=restart_ms, recovery_time_ms=recovery_time_ms
    )
    assert interval >= FLOOR_MS
    assert cost_ms / (interval + cost_ms + 1) <= 0.25 + 1e-9


def test_auto_interval_keeps_the_allowed_recovery_time_where_it_can() -> None:
    interval = auto_interval_ms(cost_ms=2_000, restart_ms=8_000, recovery_time_ms=30_000)
    assert interval == 30_000 - 8_000 - 2_000
    assert interval + 8_000 + 2_000 <= 30_000


def test_auto_interval_of_cheap_checkpoints_follows_the_optimum() -> None:
    # sqrt(2 * 0.5 s * 1 h) = 60 s, below what the recovery time would allow.
    assert auto_interval_ms(cost_ms=500, restart_ms=0, recovery_time_ms=600_000) == 60_000


def test_auto_interval_works_before_anything_was_measured() -> None:
    assert auto_interval_ms(cost_ms=None, restart_ms=None, recovery_time_ms=60_000) >= FLOOR_MS


def test_one_slow_checkpoint_is_not_a_trend() -> None:
    assert smoothed(None, 100.0) == 100.0
    assert smoothed(100.0, 1_000.0) == pytest.approx(370.0)
