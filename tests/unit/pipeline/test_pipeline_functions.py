"""Functions of a pipeline travel as text, with what they need and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from headgate import Pipeline
from headgate.core.errors import UserError
from headgate.engine.task.usercode import module_namespace

TABLE = """
CREATE TABLE bids (auction BIGINT, price BIGINT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '/in/bids.json', format = 'json', type = 'source');
"""
FACTOR = 3
UNUSED = [print] * 3


def scaled(number: int) -> int:
    return number * FACTOR


def rooted(number: int) -> int:
    return math.isqrt(scaled(number))


def spread(numbers: list[int]) -> int:
    return max(numbers) - min(numbers)


def functions(pipeline: Pipeline) -> dict[str, Any]:
    assert pipeline.udf_source is not None
    return module_namespace(pipeline.udf_source, "udfs.py")


def test_a_function_works_from_its_text_alone() -> None:
    pipeline = Pipeline("p").sql(TABLE)
    assert pipeline.udf(rooted) is rooted
    assert functions(pipeline)["rooted"](12) == 6
    assert "UNUSED" not in functions(pipeline)
    assert "Pipeline" not in functions(pipeline)


def test_functions_that_share_what_they_need_are_sent_once() -> None:
    pipeline = Pipeline("p").sql(TABLE)
    pipeline.udf(rooted)
    pipeline.udf(scaled)
    assert pipeline.udf_source is not None
    assert pipeline.udf_source.count("def scaled") == 1
    assert [
        u.name for u in pipeline.preview("SELECT scaled(rooted(price)) FROM bids").plan().udfs
    ] == [
        "scaled",
        "rooted",
    ]


def test_marks_say_what_a_function_is() -> None:
    pipeline = Pipeline("p").sql(TABLE)
    pipeline.udf(vectorized=True)(scaled)
    pipeline.udaf(spread)
    graph = pipeline.preview(
        "SELECT scaled(price), spread(price) FROM bids GROUP BY price, tumble('1 second')"
    ).plan()
    assert {u.name: u.aggregate for u in graph.udfs} == {"scaled": False, "spread": True}
    assert functions(pipeline)["scaled"].__headgate_vectorized__


def test_a_file_of_functions_may_be_added(tmp_path: Any) -> None:
    path = tmp_path / "udfs.py"
    path.write_text("@udf\ndef twice(number: int) -> int:\n    return 2 * number\n")
    pipeline = Pipeline("p").sql(TABLE).udf_file(path)
    pipeline.udf(scaled)
    graph = pipeline.preview("SELECT twice(scaled(price)) FROM bids").plan()
    assert {u.name for u in graph.udfs} == {"twice", "scaled"}
    assert functions(pipeline)["twice"](functions(pipeline)["scaled"](1)) == 6


def closure() -> Callable[[int], int]:
    kept = 1

    def inner(number: int) -> int:
        return number + kept

    return inner


@pytest.mark.parametrize("function", [lambda number: number, closure(), len])
def test_what_has_no_text_of_its_own_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=r"function '.*' is no"):
        Pipeline("p").udf(function)
