"""JSON output: the formatting rules, as a table, and against Python's own json."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.connectors.formats.json_encode import SLICE_ROWS, JsonStyle, json_lines

UTC_MICROS = pa.timestamp("us", tz="UTC")


def encode(values: list[Any], kind: pa.DataType, **style: Any) -> list[str]:
    """Return what stands right of `"v":` for each value."""
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["v"])
    text = b"".join(bytes(piece) for piece in json_lines(batch, JsonStyle(**style))).decode()
    assert text.endswith("\n")
    rows = text[:-1].split("\n")
    assert all(row.startswith('{"v":') and row.endswith("}") for row in rows)
    return [row[len('{"v":') : -1] for row in rows]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, pa.int64(), "null"),
        (None, pa.null(), "null"),
        (1, pa.int64(), "1"),
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (7, pa.int8(), "7"),
        (1797.72, pa.float32(), "1797.72"),
        (0.1, pa.float32(), "0.1"),
        (16777216.0, pa.float32(), "16777216.0"),
        (0.1, pa.float64(), "0.1"),
        (0.1 + 0.2, pa.float64(), "0.30000000000000004"),
        (1.0, pa.float64(), "1.0"),
        (-0.0, pa.float64(), "-0.0"),
        (12345678.9, pa.float64(), "12345678.9"),
        (1e7, pa.float64(), "10000000.0"),
        (1e300, pa.float64(), "1e300"),
        (5.684341886080802e-14, pa.float64(), "5.684341886080802e-14"),
        (math.nan, pa.float64(), "null"),
        (math.inf, pa.float64(), "null"),
        (True, pa.bool_(), "true"),
        ("", pa.string(), '""'),
        ('a"b\\c', pa.string(), '"a\\"b\\\\c"'),
        ("a\nb\tc\r\b\f", pa.string(), '"a\\nb\\tc\\r\\b\\f"'),
        ("\x00\x1f", pa.string(), '"\\u0000\\u001f"'),
        ("é 日本 🙂", pa.string(), '"é 日本 🙂"'),
        (datetime(2023, 10, 9, 17, 13, 40), UTC_MICROS, '"2023-10-09T17:13:40"'),
        (datetime(2023, 10, 9, 17, 13, 40, 200_000), UTC_MICROS, '"2023-10-09T17:13:40.200"'),
        (datetime(2023, 10, 9, 17, 13, 40, 1), UTC_MICROS, '"2023-10-09T17:13:40.000001"'),
        (datetime(2023, 10, 9, 17, 13, 40, 200_010), UTC_MICROS, '"2023-10-09T17:13:40.200010"'),
        (datetime(1969, 12, 31, 23, 59, 59, 999_000), UTC_MICROS, '"1969-12-31T23:59:59.999"'),
        (datetime(2023, 10, 9, 17, 13, 40), pa.timestamp("us"), '"2023-10-09T17:13:40"'),
        (datetime(2000, 1, 1, 0, 0, 0), UTC_MICROS, '"2000-01-01T00:00:00"'),
        (date(2023, 1, 2), pa.date32(), '"2023-01-02"'),
        (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (Decimal("-123456789012345678.9"), pa.decimal128(38, 1), "-123456789012345678.9"),
        ([1, None, 3], pa.list_(pa.int64()), "[1,null,3]"),
        ([], pa.list_(pa.int64()), "[]"),
        (None, pa.list_(pa.int64()), "null"),
        ([["a"], [], None], pa.list_(pa.list_(pa.string())), '[["a"],[],null]'),
        (
            {"x": 1, "y": None},
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
            '{"x":1,"y":null}',
        ),
        (None, pa.struct([("x", pa.int64())]), "null"),
        ([("k", 1.0)], pa.map_(pa.string(), pa.float64()), '{"k":1.0}'),
        ([(1, None)], pa.map_(pa.int64(), pa.string()), '{"1":null}'),
    ],
)
def test_formatting_rules(value: Any, kind: pa.DataType, text: str) -> None:
    # Beside a null, because a null changes the way that kernels take.
    assert encode([value, None, value], kind) == [text, "null", text]


@pytest.mark.parametrize(
    ("micros", "text"), [(1_500, "1"), (-1, "-1"), (-1_000, "-1"), (0, "0"), (-1_001, "-2")]
)
def test_timestamps_as_milliseconds_are_rounded_down(micros: int, text: str) -> None:
    values = pa.array([micros], pa.int64()).cast(UTC_MICROS).to_pylist()
    assert encode(values, UTC_MICROS, timestamps_as_millis=True) == [text]


def test_decimals_as_text_where_asked_for() -> None:
    kind = pa.decimal128(10, 2)
    assert encode([Decimal("1.50")], kind, decimals_as_text=True) == ['"1.50"']


def test_columns_that_are_json_already_are_written_as_they_are() -> None:
    style = {"raw_columns": frozenset({"v"})}
    assert encode(['{"a": [1]}', None], pa.string(), **style) == ['{"a": [1]}', "null"]


def test_column_names_are_escaped() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])], ['a"b'])
    (piece,) = json_lines(batch, JsonStyle())
    assert bytes(piece) == b'{"a\\"b":1}\n'


def test_no_columns_are_an_empty_object() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([{}, {}], pa.struct([]))], ["v"])
    (piece,) = json_lines(batch, JsonStyle())
    assert bytes(piece) == b'{"v":{}}\n{"v":{}}\n'


def test_more_rows_than_a_slice_holds() -> None:
    count = SLICE_ROWS * 2 + 3
    rows = encode(list(range(count)), pa.int64())
    assert rows == [str(i) for i in range(count)]


NESTED = pa.struct(
    [
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.struct([("x", pa.int64()), ("m", pa.map_(pa.string(), pa.bool_()))]))),
    ]
)
VALUES = st.none() | st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | st.text(st.characters(codec="utf-8")),
        "l": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {
                    "x": st.none() | st.integers(-(2**63), 2**63 - 1),
                    "m": st.none()
                    | st.dictionaries(st.text(max_size=3), st.none() | st.booleans()).map(
                        lambda d: list(d.items())
                    ),
                }
            ),
            max_size=3,
        ),
    }
)


def _maps_as_objects(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: dict(item) if key == "m" and item is not None else _maps_as_objects(item)
            for key, item in value.items()
        }
    return [_maps_as_objects(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8), st.integers(0, 3))
def test_any_nested_value_reads_back_as_itself(values: list[Any], skip: int) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, NESTED)], ["v"]).slice(skip)
    text = b"".join(bytes(piece) for piece in json_lines(batch, JsonStyle())).decode()
    found = [json.loads(line)["v"] for line in text.split("\n")[:-1]]
    assert found == [_maps_as_objects(value) for value in values[skip:]]


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_narrow_floats_read_back_at_their_own_width(value: float) -> None:
    (text,) = encode([value], pa.float32())
    assert pa.array([float(text)]).cast(pa.float32(), safe=False)[0].as_py() == value
    # Nine digits tell any two of them apart; zeros before and after only place the point.
    digits = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert len(digits) <= 9


@settings(deadline=None)
@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_timestamps_read_back_as_themselves(moment: datetime) -> None:
    (text,) = encode([moment.replace(tzinfo=UTC)], UTC_MICROS)
    assert datetime.fromisoformat(json.loads(text)) == moment
    fraction = json.loads(text).partition(".")[2]
    assert len(fraction) in (0, 3, 6)
    assert not (len(fraction) == 6 and fraction.endswith("000"))
    assert fraction != "000"
