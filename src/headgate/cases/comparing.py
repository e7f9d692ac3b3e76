"""Rows expected and rows found, as differences that a person can read.

Values are compared by what they mean: 1.50 is 1.5, and a time is the same in any zone. A row is
compared in the columns that it names, so nobody need write out what a test is not about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

Row = dict[str, Any]
Same = Callable[[Row, Row], bool]

_TIME = re.compile(r"\d{4,6}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?")


@dataclass(frozen=True)
class Difference:
    """One row that is not as expected."""

    kind: Literal["missing", "unexpected", "changed", "moved"]
    # What was expected, and what is there instead; None where there is no such row.
    expected: Row | None
    actual: Row | None

    def columns(self) -> list[str]:
        """Return the columns in which a changed row differs from what was expected."""
        if self.expected is None or self.actual is None:
            return []
        return [c for c, v in self.expected.items() if not same_value(v, self.actual.get(c))]


def same_value(expected: Any, actual: Any, tolerance: float = 0.0) -> bool:
    """Whether a value found means the value that was written in a case."""
    if expected is None or actual is None:
        return expected is None and actual is None
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            same_value(v, actual[k], tolerance) for k, v in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(
            same_value(e, a, tolerance) for e, a in zip(expected, actual, strict=True)
        )
    if isinstance(expected, str) and isinstance(actual, str):
        return expected == actual or _same_time(expected, actual)
    return _same_number(expected, actual, tolerance)


def _same_number(expected: Any, actual: Any, tolerance: float) -> bool:
    one, other = _number(expected), _number(actual)
    if one is None or other is None:
        return False
    if one.is_nan() or other.is_nan():
        return one.is_nan() and other.is_nan()
    return one == other or (
        one.is_finite() and other.is_finite() and abs(one - other) <= Decimal(str(tolerance))
    )


def _number(value: Any) -> Decimal | None:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float | str):
        try:
            return Decimal(str(value))
        except InvalidOperation:
            return None
    return None


def _same_time(expected: str, actual: str) -> bool:
    if not (_TIME.fullmatch(expected) and _TIME.fullmatch(actual)):
        return False
    return as_time(expected) == as_time(actual)


def as_time(text: str) -> datetime:
    """Return the time that a text says; what names no zone is UTC. Raises `ValueError`."""
    parsed = datetime.fromisoformat(text.strip())
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def compare(
    expected: Sequence[Row],
    actual: Sequence[Row],
    *,
    ordered: bool = False,
    tolerance: float = 0.0,
) -> list[Difference]:
    """Return how the rows found differ from those expected; empty if they do not."""

    def same(wanted: Row, found: Row) -> bool:
        return all(c in found and same_value(v, found[c], tolerance) for c, v in wanted.items())

    pairs = _in_order(expected, actual, same) if ordered else _anywhere(expected, actual, same)
    left = [i for i in range(len(expected)) if i not in pairs]
    taken = set(pairs.values())
    over = [i for i in range(len(actual)) if i not in taken]
    differences: list[tuple[float, Difference]] = []
    if ordered:
        # A row that is there, but elsewhere.
        for i, j in _anywhere([expected[i] for i in left], [actual[j] for j in over], same).items():
            wanted, found = left[i], over[j]
            moved = Difference("moved", expected[wanted], actual[found])
            differences.append((wanted, moved))
            left[i], over[j] = -1, -1
        left, over = [i for i in left if i >= 0], [j for j in over if j >= 0]
    for i, j in _alike(expected, actual, left, over, tolerance):
        differences.append((i, Difference("changed", expected[i], actual[j])))
        left.remove(i)
        over.remove(j)
    differences += [(i, Difference("missing", expected[i], None)) for i in left]
    differences += [(math.inf, Difference("unexpected", None, actual[j])) for j in over]
    return [difference for _, difference in sorted(differences, key=lambda d: d[0])]


def _anywhere(expected: Sequence[Row], actual: Sequence[Row], same: Same) -> dict[int, int]:
    """Pair each expected row with one that is the same; those that name most choose first."""
    pairs: dict[int, int] = {}
    free = list(range(len(actual)))
    for i in sorted(range(len(expected)), key=lambda i: -len(expected[i])):
        for j in free:
            if same(expected[i], actual[j]):
                pairs[i] = j
                free.remove(j)
                break
    return pairs


def _in_order(expected: Sequence[Row], actual: Sequence[Row], same: Same) -> dict[int, int]:
    """Pair the most rows that can be paired without crossing."""
    rows, columns = len(expected), len(actual)
    equal = [[same(e, a) for a in actual] for e in expected]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            here = 1 + best[i + 1][j + 1] if equal[i][j] else 0
            best[i][j] = max(here, best[i + 1][j], best[i][j + 1])
    pairs: dict[int, int] = {}
    i = j = 0
    while i < rows and j < columns:
        if equal[i][j] and best[i][j] == 1 + best[i + 1][j + 1]:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _alike(
    expected: Sequence[Row],
    actual: Sequence[Row],
    left: list[int],
    over: list[int],
    tolerance: float,
) -> list[tuple[int, int]]:
    """Pair rows that differ with those that are most like them: at least one value is the same."""
    scored = []
    for i in left:
        for j in over:
            equal = sum(same_value(v, actual[j].get(c), tolerance) for c, v in expected[i].items())
            if equal:
                scored.append((-equal, i, j))
    pairs: list[tuple[int, int]] = []
    used_i, used_j = set[int](), set[int]()
    for _, i, j in sorted(scored):
        if i not in used_i and j not in used_j:
            pairs.append((i, j))
            used_i.add(i)
            used_j.add(j)
    return pairs
