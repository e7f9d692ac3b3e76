"""Whatever the text is, the planner answers with a graph or with a `SqlError` that has a place."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.planner import SqlError, plan, render_error
from tests.unit.planner.planner_world import TABLES

GOLDENS = [
    re.findall(r"\w+|'[^']*'|\s+|[^\w\s]", file.read_text())
    for file in sorted((Path(__file__).parents[2] / "golden" / "plans").glob("*.sql"))
]
SIGNS = """( ) , ; . * = -> ->> ? :: [ ] { } $1 ' " -- /* @ # ~ | \\ é 🚗"""
KEYWORDS = """
UNION JOIN LATERAL OVER CASE WHEN END NULL WITH RECURSIVE INSERT VALUES unnest PARTITION QUALIFY
"""
WORDS = [
    *sorted({word for words in GOLDENS for word in words}),
    *SIGNS.split(),
    *KEYWORDS.split(),
    "\x00",
]
FAST = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def refusal(sql: str) -> SqlError | None:
    try:
        plan(sql)
    except SqlError as error:
        return error
    return None


def answer(sql: str) -> None:
    """Plan, and check that a refusal can be shown."""
    error = refusal(sql)
    if error is not None:
        assert error.message
        assert error.line is not None
        assert error.column is not None
        assert min(error.line, error.column) >= 1
        assert "^" in render_error(sql, error)


@FAST
@given(st.text(max_size=200))
def test_any_text_is_answered(sql: str) -> None:
    answer(sql)


@FAST
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words_are_answered(words: list[str]) -> None:
    answer(TABLES + "SELECT " + " ".join(words))


@FAST
@given(
    st.sampled_from(GOLDENS),
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 1, exclude_max=True), st.sampled_from(WORDS)),
        min_size=1,
        max_size=4,
    ),
)
def test_damaged_pipelines_are_answered(
    golden: list[str], damages: list[tuple[int, float, str]]
) -> None:
    words = list(golden)
    for kind, place, word in damages:
        position = int(place * len(words)) if words else 0
        if kind == 0 and words:
            del words[position]
        elif kind == 1:
            words.insert(position, word)
        elif kind == 2 and words:
            words[position] = word
        else:
            words[position:position] = words[position : position + 5]
    answer("".join(words))


def test_nesting_without_end_is_refused_not_a_crash() -> None:
    for sql in (
        "SELECT " + "(" * 4000 + "1" + ")" * 4000 + " FROM bids",
        "SELECT " + "+".join(["price"] * 4000) + " FROM bids",
        "SELECT * FROM " + "(SELECT * FROM " * 300 + "bids" + ")" * 300,
        "SELECT " + "NOT " * 4000 + "true FROM bids",
    ):
        answer(TABLES + sql)
