"""A plot of a few lines as SVG: no library for plots is worth its weight here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, MARGIN, KEY = 760, 360, 40, 200
COLOURS = (
    *("#1b6ca8", "#d1495b", "#2e933c", "#8d6a9f", "#e08e45", "#00798c", "#5c4d7d", "#b5651d"),
    *("#386641", "#c9184a", "#3d348b", "#7f5539", "#6c757d"),
)


def lines_svg(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return the lines over one pair of axes, which begin at nought, with a key beside them."""
    points = [point for line in series.values() for point in line]
    widest = max((x for x, _ in points), default=1.0) or 1.0
    highest = max((y for _, y in points), default=1.0) or 1.0
    across, up = WIDTH - MARGIN - KEY, HEIGHT - 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{MARGIN}" y="20" font-size="13">{escape(title)}</text>',
        f'<path d="M{MARGIN} {MARGIN}V{MARGIN + up}H{MARGIN + across}" fill="none" stroke="#888"/>',
        f'<text x="{MARGIN + across}" y="{MARGIN + up + 16}" text-anchor="end">{widest:g}</text>',
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{highest:.2g}</text>',
    ]
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        way = " ".join(
            f"{MARGIN + across * x / widest:.1f},{MARGIN + up * (1 - y / highest):.1f}"
            for x, y in line
        )
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}"/>')
        y = MARGIN + 14 * number
        parts.append(f'<text x="{WIDTH - KEY + 12}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])
