"""Equality of keys against plain Python, for nested types and the odd values of floats."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.state.tables.equality import equal_rows, row_codes

numbers = st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.0])
texts = st.none() | st.sampled_from(["", "a", "aa"])
CASES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.float64(), numbers),
    (pa.float32(), numbers),
    (pa.list_(pa.float64()), st.none() | st.lists(numbers, max_size=3)),
    (pa.large_list(pa.string()), st.none() | st.lists(texts, max_size=3)),
    (pa.list_(pa.int8(), 2), st.none() | st.lists(st.integers(0, 1), min_size=2, max_size=2)),
    (
        pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))]),
        st.none()
        | st.fixed_dictionaries({"x": numbers, "y": st.none() | st.lists(texts, max_size=2)}),
    ),
    (
        pa.map_(pa.string(), pa.float64()),
        st.none() | st.lists(st.tuples(st.sampled_from(["a", "b"]), numbers), max_size=2),
    ),
]


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, plain(each)) for name, each in sorted(value.items()))
    return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
@given(data=st.data())
def test_values_are_equal_where_sql_says_so(
    case: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    kind, strategy = case
    pairs = data.draw(st.lists(st.tuples(strategy, strategy), max_size=12))
    cut = data.draw(st.integers(0, len(pairs)))
    # A slice: arrays that begin in the middle of their buffers must not be misread.
    left = pa.array([one for one, _ in pairs], kind).slice(cut)
    right = pa.array([other for _, other in pairs], kind).slice(cut)
    wanted = [plain(one) == plain(other) for one, other in pairs[cut:]]
    assert equal_rows([left], [right]).tolist() == wanted
    both = pa.concat_arrays([left, right])
    codes = row_codes([both, both]).tolist()
    values = [plain(one) for one, _ in pairs[cut:]] + [plain(other) for _, other in pairs[cut:]]
    assert [a == b for a in codes for b in codes] == [a == b for a in values for b in values]
