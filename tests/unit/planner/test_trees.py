"""Long expressions are planned in time that follows their length."""

from __future__ import annotations

import cProfile
import pstats

import pytest
import sqlglot
from sqlglot import exp

from headgate.planner.trees import copied, put
from tests.unit.planner.planner_world import output_texts, planned

CASE = "CASE {} ELSE 'other' END"
LONG = {
    "branches": ("SELECT {} AS x FROM rides", CASE, "WHEN seats = {0} THEN 'v{0}'", " "),
    "values": ("SELECT CASE seats {} END AS x FROM rides", "{}", "WHEN {0} THEN 'v{0}'", " "),
    "arguments": ("SELECT coalesce({}) AS x FROM rides", "{}", "kind", ", "),
    "list": ("SELECT kind FROM rides WHERE seats IN ({})", "{}", "{0}", ", "),
    "columns": ("SELECT {} FROM rides", "{}", "seats + {0} AS c{0}", ", "),
    "keys": (
        "SELECT {} AS x, count(*) FROM rides GROUP BY 1",
        CASE,
        "WHEN seats = {0} THEN kind",
        " ",
    ),
    "aggregates": (
        "SELECT max({}) FROM rides GROUP BY kind",
        CASE,
        "WHEN seats = {0} THEN kind",
        " ",
    ),
    "json": ("SELECT coalesce({}) AS x FROM rides", "{}", "payload ->> 'k{0}'", ", "),
}
# Nested in the syntax tree, so there is an end to it: see `test_a_long_chain_is_planned`.
CHAINS = {
    "or": ("SELECT kind FROM rides WHERE {}", "{}", "seats = {0}", " OR "),
    "and": ("SELECT kind FROM rides WHERE {}", "{}", "seats <> {0}", " AND "),
}


def text(parts: tuple[str, str, str, str], length: int) -> str:
    query, around, part, between = parts
    return query.format(around.format(between.join(part.format(i) for i in range(length))))


def calls(sql: str) -> int:
    """Return how many function calls it takes to plan a text: a time without a clock."""
    profile = cProfile.Profile()
    profile.runcall(planned, sql)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("parts", [*LONG.values(), *CHAINS.values()], ids=[*LONG, *CHAINS])
def test_four_times_the_length_takes_about_four_times_as_long(parts: tuple[str, ...]) -> None:
    planned("SELECT 1 AS x FROM rides")  # what is imported and kept once is not counted
    short, long = (calls(text(parts, length)) for length in (100, 400))  # type: ignore[arg-type]
    assert long < 5 * short


@pytest.mark.parametrize("parts", CHAINS.values(), ids=CHAINS)
def test_a_long_chain_is_planned(parts: tuple[str, str, str, str]) -> None:
    assert planned(text(parts, 1000)).sinks()


def test_a_copy_is_changed_and_the_original_is_not() -> None:
    tree = sqlglot.parse_one("f(a, 1, g(a))")

    def change(node: exp.Expr) -> exp.Expr | None:
        return exp.column("b") if isinstance(node, exp.Column) else None

    result = copied(tree, change)
    assert result.sql() == "F(b, 1, G(b))"
    assert tree.sql() == "F(a, 1, G(a))"
    first = next(result.find_all(exp.Column))
    assert (first.parent, first.arg_key, first.index) == (result, "expressions", 0)


def test_what_is_put_into_a_place_knows_its_place() -> None:
    tree = sqlglot.parse_one("a + b")
    put(tree.expression, exp.Literal.number(2))
    assert tree.sql() == "a + 2"
    assert tree.expression.parent is tree
    tree.expression.replace(exp.Literal.number(3))
    assert tree.sql() == "a + 3"


def test_a_long_case_keeps_its_text() -> None:
    query = text(LONG["branches"], 300)
    assert output_texts(query)["x"] == query.removeprefix("SELECT ").removesuffix(
        " AS x FROM rides"
    )
