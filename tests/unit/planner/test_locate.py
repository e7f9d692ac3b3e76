"""The place of an expression that Spark refused, found again in the text."""

from __future__ import annotations

import pytest

from headgate.planner import plan
from headgate.planner.locate import located
from tests.unit.planner.planner_world import TABLES

TEXT = """CREATE VIEW v AS SELECT driver,
  upper(substring(kind, 1, seats)) AS u FROM rides WHERE seats > 1;
INSERT INTO facts SELECT count(*), substring(u, 2, 3) FROM v
  GROUP BY u, tumble('1 minute');
"""


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("substring(kind, 1, seats)", (2, 9)),
        # Spark writes with other blanks and letters.
        ("SUBSTRING(kind,1,seats)", (2, 9)),
        ("seats > 1", (2, 58)),
    ],
)
def test_an_expression_is_found_where_it_was_written(
    expression: str, place: tuple[int, int]
) -> None:
    found = located(TABLES + TEXT, None, operator=None, expression=expression, message="no")
    assert found is not None
    assert found.line is not None
    assert (found.line - TABLES.count("\n"), found.column) == place


def test_what_the_planner_made_itself_has_no_place() -> None:
    assert (
        located(TABLES + TEXT, None, operator=None, expression="nothing(1)", message="no") is None
    )


def test_the_operator_that_refused_is_looked_at_first() -> None:
    twice = "CREATE VIEW v AS SELECT upper(kind) AS u, count(*) AS n FROM rides GROUP BY 1;\n"
    sql = TABLES + twice + "SELECT upper(kind) FROM rides"
    project = next(o.id for o in plan(sql).operators if o.spec.kind == "project")
    found = located(sql, None, operator=project, expression="upper(kind)", message="no")
    assert found is not None
    assert found.line == sql.count("\n") + 1
