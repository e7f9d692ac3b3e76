"""Backoff, the interval `auto`, and who may claim a generation back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.controller.checkpoints.auto_interval import FLOOR_MS, auto_interval_ms, smoothed
from headgate.controller.effects.claimant import Claimant, for_turn, may_claim_back, parse_claimant
from headgate.controller.rules.backoff import backoff_ms, roll


@given(n=st.integers(0, 10**9), seed=st.integers(0, 2**31))
def test_backoff_is_between_half_and_all_of_its_bound_at_any_n(n: int, seed: int) -> None:
    bound = 60_000 if n >= 10 else min(60_000, 100 * 2**n)
    delay = backoff_ms(initial_ms=100, max_ms=60_000, n=n, roll=roll(seed, n))
    assert bound / 2 - 1 <= delay <= bound


def test_backoff_doubles_until_its_maximum() -> None:
    delays = [backoff_ms(initial_ms=100, max_ms=1_000, n=n, roll=1.0) for n in range(6)]
    assert delays == [100, 200, 400, 800, 1_000, 1_000]


@given(st.integers(0, 2**31), st.integers(0, 1_000))
def test_roll_is_a_fraction_and_repeats_itself(seed: int, n: int) -> None:
    assert 0 <= roll(seed, n) < 1
    assert roll(seed, n) == roll(seed, n)


def test_jobs_that_failed_together_do_not_come_back_together() -> None:
    assert len({roll(seed, 3) for seed in range(100)}) == 100


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


def test_claimant_survives_its_text() -> None:
    claimant = Claimant(database="db_1", lease=7, controller="pid-3")
    assert parse_claimant(claimant.text()) == claimant
    assert parse_claimant(for_turn(claimant.text(), 12)) == claimant
    assert parse_claimant("something else") is None


@pytest.mark.parametrize(
    ("ours", "theirs", "allowed"),
    [
        ("db/7/a", "db/6/b/3", True),
        ("db/7/a", "db/7/a/9", True),
        ("db/7/a", "db/8/b/3", False),
        ("db/7/a", "other/1/b/3", False),
        ("db/7/a", "", False),
        ("db/7/a", "manual", False),
    ],
)
def test_only_an_earlier_holder_of_our_own_lease_is_gone_past(
    ours: str, theirs: str, allowed: bool
) -> None:
    assert may_claim_back(ours=ours, theirs=theirs) is allowed
