"""What a person is told at the end of rows that were left out."""

from __future__ import annotations

from headgate.core.dropped import EXAMPLES_MAX, DroppedRow, shortened, with_examples
from headgate.core.ids import OperatorId
from headgate.core.messages import OperatorProgress, Progress
from headgate.embedded.dropped import dropped_summary

SOURCE, WINDOW = OperatorId("source-orders"), OperatorId("tumble-1")


def bad(number: int, operator: OperatorId = SOURCE) -> DroppedRow:
    return DroppedRow(
        operator=operator, why="bad", position=f"o.json:{number}", reason="no", raw="{"
    )


def test_counts_and_examples_are_told_by_operator() -> None:
    late = DroppedRow(
        operator=WINDOW,
        why="late",
        raw="shop = a",
        time_us=1_704_067_200_000_000,
        late_us=90 * 10**6,
    )
    progress = Progress(
        operators={
            SOURCE: OperatorProgress(rows_in=5_000, rows_bad=1_200),
            WINDOW: OperatorProgress(rows_in=9, rows_late=1),
        },
        dropped=(bad(3), late),
    )
    assert dropped_summary(progress) == [
        "source-orders: 1,200 rows could not be read",
        "  for example o.json:3: no: {",
        "tumble-1: 1 row came too late",
        "  for example of 2024-01-01 00:00:00, 1 min 30 s behind: shop = a",
    ]
    assert dropped_summary(Progress(operators={WINDOW: OperatorProgress(rows_in=9)})) == []


def test_a_few_examples_of_each_are_kept() -> None:
    kept = with_examples((), (bad(n) for n in range(9)))
    assert kept == tuple(bad(n) for n in range(EXAMPLES_MAX))
    other = bad(1, WINDOW)
    assert with_examples(kept, [bad(77), other, other]) == (*kept, other)


def test_long_and_broken_texts_are_one_short_line() -> None:
    assert shortened("a\n  b\tc") == "a b c"
    assert shortened("x" * 500) == "x" * 199 + "…"
