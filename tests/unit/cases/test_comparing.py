"""How rows that were found are told from those that were expected."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headgate.cases.comparing import compare, same_value
from headgate.cases.scripted import folded


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1.5, Decimal("1.50"), True),
        (2, Decimal("2.0"), True),
        (0.3, Decimal("0.30000000000000004"), False),
        (1, True, False),
        (None, 0, False),
        (0, None, False),
        (None, None, True),
        ("1", "1", True),
        ("2024-01-01 00:00:00", "2024-01-01T00:00:00Z", True),
        ("2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00Z", True),
        ("2024-01-01 00:00:01", "2024-01-01T00:00:00Z", False),
        ("2024-01-01", "2024-01-02", False),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": Decimal("2.0")}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        (float("nan"), Decimal("NaN"), True),
        (float("inf"), Decimal("NaN"), False),
        ("text", 3, False),
    ],
)
def test_values_are_compared_by_what_they_mean(expected: Any, actual: Any, same: bool) -> None:
    assert same_value(expected, actual) is same


def test_numbers_may_differ_by_the_tolerance() -> None:
    assert not compare([{"x": 0.3}], [{"x": Decimal("0.31")}], tolerance=0.02)
    assert compare([{"x": 0.3}], [{"x": Decimal("0.33")}], tolerance=0.02)
    assert not compare([{"x": [0.3]}], [{"x": [Decimal("0.31")]}], tolerance=0.02)


def kinds(expected: list[Any], actual: list[Any], **options: Any) -> list[tuple[str, Any, Any]]:
    return [(d.kind, d.expected, d.actual) for d in compare(expected, actual, **options)]


def test_rows_that_are_alike_are_shown_beside_each_other() -> None:
    expected = [{"shop": "a", "n": 2}, {"shop": "b", "n": 1}, {"shop": "c", "n": 7}]
    actual = [{"shop": "b", "n": 1}, {"shop": "a", "n": 3}, {"shop": "d", "n": 9}]
    assert kinds(expected, actual) == [
        ("changed", {"shop": "a", "n": 2}, {"shop": "a", "n": 3}),
        ("missing", {"shop": "c", "n": 7}, None),
        ("unexpected", None, {"shop": "d", "n": 9}),
    ]


def test_a_row_counts_as_often_as_it_is_there() -> None:
    assert kinds([{"n": 1}], [{"n": 1}, {"n": 1}]) == [("unexpected", None, {"n": 1})]
    assert kinds([{"n": 1}, {"n": 1}], [{"n": 1}]) == [("missing", {"n": 1}, None)]


def test_only_columns_that_are_named_are_compared() -> None:
    # The row that says most chooses first: the other one takes what is left.
    expected = [{"shop": "a"}, {"shop": "a", "n": 1}]
    assert not compare(expected, [{"shop": "a", "n": 1}, {"shop": "a", "n": 2}])
    assert not compare(expected, [{"shop": "a", "n": 2}, {"shop": "a", "n": 1}])
    assert compare([{"shop": None}], [{"n": 1}])


def test_order_counts_if_it_is_asked_for() -> None:
    rows = [{"n": 1}, {"n": 2}, {"n": 3}]
    turned = [rows[1], rows[2], rows[0]]
    assert not compare(rows, turned)
    assert not compare(rows, rows, ordered=True)
    assert kinds(rows, turned, ordered=True) == [("moved", {"n": 1}, {"n": 1})]
    assert kinds(rows, rows[1:], ordered=True) == [("missing", {"n": 1}, None)]


def test_changes_come_to_the_rows_that_are_left() -> None:
    changes = [
        {"_op": "insert", "n": 1},
        {"_op": "insert", "n": 1},
        {"_op": "delete", "n": 1},
        {"_op": "insert", "n": 2},
    ]
    assert folded(changes) == [{"n": 1}, {"n": 2}]
    # A deletion of what is not there is a defect: it stays visible.
    assert folded([{"_op": "delete", "n": 5}]) == [{"_op": "delete", "n": 5}]
