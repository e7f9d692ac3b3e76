"""The user's Python functions in SQL."""

from __future__ import annotations

import pytest

from headgate.core.errors import UserError
from headgate.core.graph import Udf
from headgate.planner.udfs import read_udfs
from tests.unit.planner.planner_world import only, planned

SOURCE = """
from __future__ import annotations
import datetime
from decimal import Decimal
from typing import Optional
import headgate
from headgate import udf, udaf

@udf
def double_it(x: int) -> int:
    return x * 2

@headgate.udf()
def label(name: str, at: datetime.datetime, share: float | None) -> Optional[str]:
    return f"{name} {at} {share}"

@udaf
def spread(values: list[float]) -> float:
    return max(values) - min(values)

@udf
def parts(x: "str") -> list[Decimal]:
    return []

def helper(x): return x
"""


def test_types_come_from_the_hints() -> None:
    assert read_udfs(SOURCE) == (
        Udf(name="double_it", arguments=("bigint",), returns="bigint"),
        Udf(name="label", arguments=("string", "timestamp", "double"), returns="string"),
        Udf(name="spread", arguments=("array<double>",), returns="double", aggregate=True),
        Udf(name="parts", arguments=("string",), returns="array<decimal(38,10)>"),
    )


def test_a_scalar_function_is_called_by_its_name_and_computed_once() -> None:
    graph = planned(
        "SELECT y, y + 1 FROM (SELECT DOUBLE_IT(price) AS y FROM bids)", udf_source=SOURCE
    )
    first = next(o for o in graph.operators if o.spec.kind == "project")
    assert [e.expr for e in first.spec.exprs] == ["double_it(price)"]  # type: ignore[union-attr]
    assert graph.udf_source == SOURCE
    assert len(graph.udfs) == 4


def test_an_aggregate_gets_the_list_of_its_values() -> None:
    graph = planned(
        "SELECT spread(meters) FILTER (WHERE paid) FROM rides GROUP BY tumble('1 minute')",
        udf_source=SOURCE,
    )
    spec = only(graph, "window_aggregate").spec
    assert [o.expr for o in spec.outputs] == [  # type: ignore[union-attr]
        "spread(collect_list(v_meters) FILTER(WHERE v_paid))"
    ]
    assert [r.name for r in spec.rows] == ["v_meters", "v_paid"]  # type: ignore[union-attr]


def test_the_arguments_of_an_aggregate_come_from_the_same_rows() -> None:
    source = """
@udaf
def weighted(values: list[float], weights: list[int]) -> float: ...
"""
    graph = planned(
        "SELECT weighted(meters, seats) FILTER (WHERE paid) FROM rides GROUP BY tumble('1 minute')",
        udf_source=source,
    )
    spec = only(graph, "window_aggregate").spec
    (call,) = [o.expr for o in spec.outputs]  # type: ignore[union-attr]
    first, second = call.removeprefix("weighted(").removesuffix(")").split(".a0, ")
    # One list of rows, looked at twice: lists of their own would lose their own nulls.
    assert second == f"{first}.a1"
    assert "collect_list(named_struct('a0', v_meters, 'a1', v_seats))" in first
    assert "v_paid" in first


def test_an_aggregate_of_the_user_works_over_a_windowed_input() -> None:
    graph = planned(
        "SELECT w, spread(n) FROM (SELECT driver, tumble('1 minute') AS w, count(*) AS n "
        "FROM rides GROUP BY 1, 2) GROUP BY w",
        udf_source=SOURCE,
    )
    assert "spread(collect_list(__in0.count))" in only(graph, "sql").spec.sql  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:", "the UDF file has a syntax error in line 1: "),
        ("@udf\ndef f(x) -> int: ...", "argument 'x' needs a type hint"),
        ("@udf\ndef f(x: int): ...", "needs a type hint for its result"),
        (
            "@udf\ndef f(x: set) -> int: ...",
            "the type hint 'set' has no SQL type",
        ),
        (
            "@udaf\ndef f(x: int) -> int: ...",
            "argument 'x' of a @udaf is a list: write list[...]",
        ),
        (
            "@udf\ndef f(*x: int) -> int: ...",
            "takes plain positional arguments only",
        ),
        (
            "@udf\ndef lower(x: str) -> str: ...",
            "UDF 'lower' (line 2): has the name of a function of Spark: choose another",
        ),
        (
            "@udf\nasync def f(x: int) -> int: ...",
            "async functions are not supported",
        ),
        (
            "@udf\ndef f(x: int) -> int: ...\n@udf\ndef F(x: int) -> int: ...",
            "UDF 'F' (line 4): function 'F' is declared twice",
        ),
    ],
)
def test_a_bad_function_is_named_with_its_line(source: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        read_udfs(source)
    text = raised.value.message.removeprefix("UDF 'f' (line 2): ")
    assert text.startswith(message)
    assert raised.value.code == "udf"
