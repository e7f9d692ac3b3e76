"""Sizes and event times for people."""

from __future__ import annotations

import pytest

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.figures import format_bytes, format_watermark


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_540_000, "1.5 MB"),
        (7_000_000_000_000, "7000.0 GB"),
    ],
)
def test_sizes_have_the_unit_that_makes_them_short(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_watermarks_are_moments_unless_there_is_none() -> None:
    assert format_watermark(1_704_067_200_000_000) == "2024-01-01 00:00:00"
    assert format_watermark(None) == format_watermark(WATERMARK_MIN) == "-"
    assert format_watermark(WATERMARK_MAX) == "end of data"
