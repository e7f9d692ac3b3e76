"""The short form of `make endurance`: a few hundred micro-batches in the real processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.endurance import LIMITS, Grown, judge, page, run, write

BATCHES = 300


@pytest.mark.verify
@pytest.mark.skipif(shutil.which("jcmd") is None, reason="needs the tools of a JDK")
def test_nothing_grows_after_warming_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    samples = run(BATCHES, tmp_path, lambda so_far: write(so_far, out), collections=1)
    assert len((tmp_path / "out" / "endurance.csv").read_text().splitlines()) == len(samples) + 1
    # The JVM still compiles and loads classes for thousands of micro-batches: its own memory is
    # judged by the long form.
    slow = {"heap_mib", "java_outside_heap_mib", "java_classes_mib", "java_compiled_mib"}
    judge(samples, {name: limit for name, limit in LIMITS.items() if name not in slow})


def test_what_grows_is_named() -> None:
    flat = dict.fromkeys(LIMITS, 100.0)
    samples = [flat | {"threads": 100.0 + 10 * number} for number in range(8)]
    with pytest.raises(Grown, match="not flat: threads\n"):
        judge(samples, LIMITS)
    assert len(judge([flat] * 8, LIMITS)) == len(LIMITS)


def test_one_sample_can_be_written_already(tmp_path: Path) -> None:
    write([dict.fromkeys((*LIMITS, "batches", "seconds"), 100.0)], tmp_path)
    assert len((tmp_path / "endurance.csv").read_text().splitlines()) == 2


def test_page_says_what_grows() -> None:
    flat = dict.fromkeys((*LIMITS, "batches", "seconds"), 100.0)
    samples = [flat | {"threads": 100.0 + 10 * number} for number in range(8)]
    text = page(samples, "plot.svg")
    assert "| threads | 100.0 | 125.0 | 165.0 | 10% + 10 | GROWS |" in text
    assert "| heap, MiB | 100.0 | 100.0 | 100.0 | 2% + 2 | flat |" in text
    assert "![Every value relative to the most that counts as flat](plot.svg)" in text
