"""Partials merge in Arrow as Spark would merge them."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.errors import UserError
from headgate.engine.task.merging import merge_groups, merge_pair, merge_rows
from headgate.operators.updating_aggregate.rename import renamed

OPERATIONS = {
    "sum": lambda a, b: a + b,
    "min": min,
    "max": max,
    "bool_and": lambda a, b: a and b,
    "bool_or": lambda a, b: a or b,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
}
TYPES: dict[str, list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "sum": [
        (pa.int64(), st.integers(-9, 9)),
        (pa.duration("us"), st.integers(-9, 9)),
        (pa.decimal128(38, 2), st.decimals(-9, 9, places=2)),
    ],
    "min": [(pa.int32(), st.integers(-9, 9)), (pa.string(), st.text(max_size=3))],
    "max": [
        (pa.timestamp("us", "UTC"), st.integers(-9, 9)),
        (pa.bool_(), st.booleans()),
        (pa.duration("us"), st.integers(-9, 9)),
        (pa.date32(), st.integers(0, 9)),
        (pa.decimal128(10, 2), st.decimals(-9, 9, places=2)),
    ],
    "bool_and": [(pa.bool_(), st.booleans())],
    "bool_or": [(pa.bool_(), st.booleans())],
    "bit_and": [(pa.int8(), st.integers(-128, 127)), (pa.int64(), st.integers(-9, 9))],
    "bit_or": [(pa.int32(), st.integers(-9, 9))],
    "bit_xor": [(pa.int64(), st.integers(-(2**63), 2**63 - 1))],
}
CASES = [(how, kind, values) for how, kinds in TYPES.items() for kind, values in kinds]


def merged(how: str, values: list[Any]) -> Any:
    known = [v for v in values if v is not None]
    return reduce(OPERATIONS[how], known) if known else None


@pytest.mark.parametrize(("how", "kind", "values"), CASES, ids=lambda v: str(v)[:20])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pairs_and_groups_merge_with_nulls_as_absent(
    how: str, kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(st.none() | values, st.none() | values), max_size=8))
    old, new = (pa.array([p[i] for p in pairs], kind) for i in (0, 1))
    expected = pa.array([merged(how, list(pair)) for pair in pairs], kind)
    assert merge_pair(old, new, how).equals(expected)
    numbers = [0, *data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))]
    groups = [sorted(set(numbers), key=numbers.index).index(n) for n in numbers]
    column = data.draw(st.lists(st.none() | values, min_size=4, max_size=4))
    rows = pa.table({"v": pa.array(column, kind)})
    found = merge_groups(rows, np.array(groups), {"v": how})["v"]
    by_group = [[v for v, g in zip(column, groups, strict=True) if g == n] for n in set(groups)]
    assert found.to_pylist() == pa.array([merged(how, b) for b in by_group], kind).to_pylist()


def test_nan_is_the_greatest_number() -> None:
    nan = math.nan
    old, new = pa.array([nan, 1.0, None, nan]), pa.array([1.0, nan, nan, None])
    assert all(math.isnan(v) for v in merge_pair(old, new, "max").to_pylist())
    assert str(merge_pair(old, new, "min").to_pylist()) == "[1.0, 1.0, nan, nan]"
    rows = pa.table({"k": [1, 1, 2], "v": [nan, 5.0, 3.0]})
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
    assert str(merge_rows(rows, ["k"], {"v": "max"}, schema)["v"].to_pylist()) == "[nan, 3.0]"


def test_a_sum_that_no_longer_fits_is_the_users_error() -> None:
    with pytest.raises(UserError, match="no longer fits"):
        merge_pair(pa.array([2**63 - 1]), pa.array([1]), "sum")
    most = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))
    with pytest.raises(UserError, match="no longer fits"):
        merge_pair(most, most, "sum")


def test_rows_merge_by_nested_keys_and_without_keys() -> None:
    schema = pa.schema([("k", pa.struct([("a", pa.int64())])), ("v", pa.int64())])
    rows = pa.table({"k": [{"a": 1}, {"a": 2}, {"a": 1}, None], "v": [1, 2, 4, 8]}, schema=schema)
    found = merge_rows(rows, ["k"], {"v": "bit_or"}, schema).to_pylist()
    assert found == [{"k": {"a": 1}, "v": 5}, {"k": {"a": 2}, "v": 2}, {"k": None, "v": 8}]
    only = pa.schema([("v", pa.int64())])
    assert merge_rows(rows, [], {"v": "sum"}, only).to_pylist() == [{"v": 15}]


def test_only_columns_are_renamed() -> None:
    names = (("p", "_old_p"), ("a`b", "_new"))
    assert renamed("P / p(p) + s.p + 'p' + `p` -- p", names) == (
        "`_old_p` / p(`_old_p`) + s.p + 'p' + `_old_p` -- p"
    )
    assert renamed("p.x[`a``b`]", names) == "`_old_p`.x[`_new`]"


def _sums(values: list[Any], kind: pa.DataType, groups: list[int] | None = None) -> list[Any]:
    """Sum by key through `merge_rows`; without groups all rows are of one key."""
    rows = pa.table(
        {"k": pa.array(groups or [0] * len(values), pa.int64()), "s": pa.array(values, kind)}
    )
    merged: list[Any] = merge_rows(rows, ["k"], {"s": "sum"}, rows.schema)["s"].to_pylist()
    return merged


BIG, LEAST, MOST = 2**62 + 5, -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([BIG, BIG], pa.int64()),
        ([-BIG, -BIG], pa.int64()),
        ([MOST, 1], pa.int64()),
        ([LEAST, -1], pa.int64()),
        ([BIG] * 4, pa.int64()),
        ([BIG] * 7, pa.int64()),
        ([Decimal(9 * 10**37), Decimal(9 * 10**37)], pa.decimal128(38, 0)),
        ([Decimal(9 * 10**27), Decimal(9 * 10**27)], pa.decimal128(28, 0)),
        ([Decimal("-9.5"), Decimal("-9.5")], pa.decimal128(2, 1)),
    ],
)
def test_partials_whose_sum_does_not_fit_are_refused_as_in_an_updating_aggregate(
    values: list[Any], kind: pa.DataType
) -> None:
    with pytest.raises(UserError, match="no longer fits into") as merged:
        _sums(values, kind)
    with pytest.raises(UserError) as paired:
        merge_pair(pa.array(values[:1], kind), pa.array(values[1:2], kind), "sum")
    assert (merged.value.code, merged.value.args) == (paired.value.code, paired.value.args)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(LEAST, MOST)), min_size=1, max_size=12))
def test_sums_of_whole_numbers_are_exact_or_refused(rows: list[tuple[int, int]]) -> None:
    groups, values = [g for g, _ in rows], [v for _, v in rows]
    exact = {g: sum(v for h, v in rows if h == g) for g in groups}
    if all(LEAST <= total <= MOST for total in exact.values()):
        assert sorted(_sums(values, pa.int64(), groups)) == sorted(exact.values())
    else:
        with pytest.raises(UserError):
            _sums(values, pa.int64(), groups)
