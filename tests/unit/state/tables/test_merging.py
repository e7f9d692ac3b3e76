"""The arithmetic of merging: few runs, and every row rewritten a logarithmic number of times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.checkpoint import RunRef
from headgate.core.ids import Epoch
from headgate.state.tables.merging import UNITS_MAX, merge_start, units


@pytest.mark.parametrize("fanout", [2, 4, 8])
def test_writes_are_amortised_and_runs_stay_few(fanout: int) -> None:
    sizes: list[int] = []
    written = 0
    epochs = 3000
    for _ in range(epochs):
        start = merge_start(sizes, 10, fanout=fanout, base=10, units_max=1000)
        joined = 10 + sum(sizes[start:])
        written += joined
        sizes = [*sizes[:start], joined]
    tiers = math.log(epochs, fanout) + 1
    assert sum(sizes) == 10 * epochs
    assert written <= 10 * epochs * tiers
    assert len(sizes) <= fanout * tiers


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(0, 10**9), st.integers(2, 10))
def test_only_a_suffix_is_joined_and_the_number_of_runs_is_bounded(
    sizes: list[int], new: int, fanout: int
) -> None:
    start = merge_start(sizes, new, fanout=fanout)
    assert 0 <= start <= len(sizes)
    assert start + 1 <= UNITS_MAX


def test_a_large_old_run_is_left_alone_by_small_changes() -> None:
    sizes = [10_000_000]
    for _ in range(7):
        assert merge_start(sizes, 100_000, fanout=8) == len(sizes)
        sizes.append(100_000)
    assert merge_start(sizes, 100_000, fanout=8) == 1


def test_runs_of_one_age_are_one_unit() -> None:
    def run(path: str, last: int) -> RunRef:
        return RunRef(
            path=path, bytes=1, checksum="", rows=1, first_epoch=Epoch(1), last_epoch=Epoch(last)
        )

    runs = [run("a", 1), run("b", 3), run("c", 3), run("d", 4)]
    assert [[each.path for each in unit] for unit in units(runs)] == [["a"], ["b", "c"], ["d"]]
