"""How long to wait before the next try."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.backoff import backoff_ms, roll
from headgate.storage.retrying import RetryPolicy


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


@given(failures=st.integers(0, 10**6), uniform=st.floats(0, 1, exclude_max=True))
def test_the_object_store_waits_by_the_same_rule(failures: int, uniform: float) -> None:
    policy = RetryPolicy(tries=5, initial_ms=100, max_ms=3_000)
    expected = backoff_ms(initial_ms=100, max_ms=3_000, n=failures, roll=uniform)
    assert policy.delay_ms(failures, uniform) == expected
