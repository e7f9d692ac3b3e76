"""What Spark takes is not refused: `tests/spark/planner` asks Spark the same of these files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.planner.planner_world import planned

HERE = Path(__file__).parent


def listed(name: str) -> list[str]:
    """Return the expressions of a file."""
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


EXPRESSIONS, AGGREGATES = listed("valid.txt"), listed("valid_aggregates.txt")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_that_spark_takes_is_planned(expression: str) -> None:
    assert planned(f"SELECT {expression} AS x FROM rides").sinks()


@pytest.mark.parametrize("expression", AGGREGATES)
def test_an_aggregate_that_spark_takes_is_planned(expression: str) -> None:
    assert planned(f"SELECT {expression} AS x FROM rides GROUP BY tumble('1 hour')").sinks()


def test_there_are_enough_of_them_to_mean_something() -> None:
    assert len(set(EXPRESSIONS + AGGREGATES)) >= 200
