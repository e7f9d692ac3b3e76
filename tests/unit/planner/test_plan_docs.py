"""The SQL reference: every example plans, after the tables at its head."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.planner import plan
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
    assert without == ["What is refused, and why", "Changing a pipeline"]
