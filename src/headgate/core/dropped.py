"""Rows that a pipeline has left out, and a few of them as examples. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from headgate.core.ids import OperatorId
from headgate.core.model import model

# So many examples of each operator and each cause are kept.
EXAMPLES_MAX = 3
RAW_CHARACTERS = 200


@model
class DroppedRow:
    """One of the rows that were left out."""

    # The source of a bad row, or the operator for which a row was late.
    operator: OperatorId
    why: Literal["bad", "late"]
    # Where it was: `orders.json:17 (byte 1234)`, `topic/0@99`. Empty if it is not known.
    position: str = ""
    reason: str = ""
    # Its text, or the values of a late row; shortened.
    raw: str = ""
    # Of a late row, in microseconds: its time (that of its window, where rows are aggregated
    # before they are seen to be late), and how far behind what had been emitted it came.
    time_us: int | None = None
    late_us: int | None = None


def with_examples(
    kept: tuple[DroppedRow, ...], more: Iterable[DroppedRow]
) -> tuple[DroppedRow, ...]:
    """Return the examples with those of one more micro-batch, as far as there is room."""
    result = list(kept)
    for row in more:
        alike = [r for r in result if (r.operator, r.why) == (row.operator, row.why)]
        if len(alike) < EXAMPLES_MAX and row not in alike:
            result.append(row)
    return tuple(result)


def shortened(text: str, characters: int = RAW_CHARACTERS) -> str:
    """Return as much of a row's text as is shown, in one line."""
    line = " ".join(text[: 4 * characters].split())
    return line if len(line) <= characters else line[: characters - 1] + "…"
