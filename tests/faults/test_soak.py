"""The soak test in short: every kind of process is killed once. `make soak` kills many times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.soak import VICTIMS, soak


@pytest.mark.timeout(1_800)
def test_kills_of_every_kind_leave_the_output_exact(tmp_path: Path) -> None:
    done = soak(tmp_path, list(VICTIMS), seed=7, say=print)
    assert set(done.killed) == set(VICTIMS)
