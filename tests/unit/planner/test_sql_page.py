"""The SQL reference: every example plans, after the tables at its head."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.planner import plan
from headgate.planner.explain import explain
from tests.support.docs import Example, Page

PATH = Path(__file__).parents[3] / "docs" / "sql.md"
PAGE = Page.read(PATH)


@pytest.mark.parametrize(
    "example", PAGE.examples, ids=[e.sql.split("\n")[0][:40] for e in PAGE.examples]
)
def test_the_example_plans(example: Example) -> None:
    assert plan(PAGE.tables + example.sql, udf_source=PAGE.python).sinks()
    assert example.output is not None


def test_every_part_of_the_page_has_examples() -> None:
    parts = re.split(r"^## ", PATH.read_text(), flags=re.MULTILINE)[1:]
    without = [p.split("\n")[0] for p in parts if "```sql" not in p]
    assert without == ["Types are checked first", "What is refused, and why", "Changing a pipeline"]


def test_the_life_of_a_pipeline_shows_the_plan_of_the_readme() -> None:
    readme = (PATH.parents[1] / "README.md").read_text()
    sql = readme.split("```sql\n")[1].split("```")[0]
    page = (PATH.parent / "life-of-a-pipeline.md").read_text()
    query = page.split("```sql\n")[1].split("```")[0]
    assert sql.endswith(query)
    assert f"```\n{explain(plan(sql))}\n```" in page
