"""The SQL reference: every example plans, after the tables at its head."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.planner import plan

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TABLES, EXAMPLES = BLOCKS[0], BLOCKS[1:]


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.split("\n")[0][:40] for e in EXAMPLES])
def test_the_example_plans(example: str) -> None:
    assert plan(TABLES + example).sinks()


def test_every_part_of_the_page_has_examples() -> None:
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    without = [p.split("\n")[0] for p in parts if "```sql" not in p]
    assert without == ["What is refused, and why", "Changing a pipeline"]
