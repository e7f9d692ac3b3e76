"""postgres: the bytes of COPY, read back by psycopg's own loaders."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format

from headgate.connectors.postgres.encode import WireColumn, encode_rows
from headgate.connectors.postgres.sink import last_of_each_key
from headgate.connectors.postgres.types import WireType
from headgate.core.errors import BadDataError

ENCODE_MODULE = "headgate.connectors.postgres.encode"


def fields_of(data: bytes, columns: int) -> list[list[bytes | None]]:
    """Take tuples apart as the server does."""
    rows, at = [], 0
    while at < len(data):
        (count,) = struct.unpack_from(">h", data, at)
        assert count == columns
        at += 2
        row: list[bytes | None] = []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", data, at)
            at += 4
            row.append(None if length < 0 else data[at : at + length])
            at += max(length, 0)
        rows.append(row)
    assert at == len(data)
    return rows


def loaded(batch: pa.RecordBatch, wires: list[WireType]) -> list[tuple[Any, ...]]:
    """Encode, and read back."""
    columns = [WireColumn(n, w) for n, w in zip(batch.schema.names, wires, strict=True)]
    data = b"".join(bytes(piece) for piece in encode_rows(batch, columns))
    loaders: list[Callable[[bytes], Any]] = [
        Transformer().get_loader(wire.oid, Format.BINARY).load for wire in wires
    ]
    return [
        tuple(
            None if field is None else load(field) for load, field in zip(loaders, row, strict=True)
        )
        for row in fields_of(data, len(wires))
    ]


def test_fields_of_any_width_stand_in_their_order() -> None:
    batch = pa.record_batch(
        {
            "a": pa.array([1, None, 3], pa.int32()),
            "b": pa.array(["x", None, ""]),
            "c": pa.array([1.5, 2.5, 3.5]),
            "d": pa.array([True, False, None]),
            "e": pa.array([b"\x00", b"", None]),
        }
    )
    kinds = ["int8", "varchar", "float8", "bool", "bytea"]
    wanted = [
        (1, "x", 1.5, True, b"\x00"),
        (None, None, 2.5, False, b""),
        (3, "", 3.5, None, None),
    ]
    assert loaded(batch, [WireType(kind) for kind in kinds]) == wanted
    assert loaded(batch.slice(1), [WireType(kind) for kind in kinds]) == wanted[1:]
    assert loaded(batch.slice(0, 0), [WireType(kind) for kind in kinds]) == []


def test_rows_that_are_too_many_for_one_call_follow_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{ENCODE_MODULE}._SLICE_BYTES", 1_000)
    batch = pa.record_batch({"n": range(1_000), "w": [f"w{n}" for n in range(1_000)]})
    found = loaded(batch, [WireType("int8"), WireType("text")])
    assert found == [(n, f"w{n}") for n in range(1_000)]


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    most = 10**precision - 1
    numbers = st.integers(-most, most) | st.sampled_from(
        [0, 1, -1, most, -most, 10 ** (precision - 1)]
    )
    return st.none() | numbers.map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


@pytest.mark.parametrize(
    ("precision", "scale"),
    [
        (1, 0),
        (5, 2),
        (9, 9),
        (18, 0),
        (18, 3),
        (18, 17),
        (19, 1),
        (28, 10),
        (38, 0),
        (38, 38),
        (38, 5),
    ],
)
@given(data=st.data())
def test_every_decimal_is_the_same_numeric(precision: int, scale: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(decimals(precision, scale), min_size=1))
    batch = pa.record_batch({"d": pa.array(values, pa.decimal128(precision, scale))})
    offset = data.draw(st.integers(0, len(values) - 1))
    found = loaded(batch.slice(offset), [WireType("numeric", False, precision, scale)])
    assert [row[0] for row in found] == values[offset:]


@given(st.lists(st.none() | st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))))
def test_every_time_is_the_same(times: list[dt.datetime | None]) -> None:
    utc = [None if t is None else t.replace(tzinfo=dt.UTC) for t in times]
    batch = pa.record_batch(
        {
            "a": pa.array(times, pa.timestamp("us")),
            "b": pa.array(times, pa.timestamp("us", "UTC")),
            "c": pa.array([None if t is None else t.date() for t in times], pa.date32()),
        }
    )
    found = loaded(batch, [WireType("timestamp"), WireType("timestamptz"), WireType("date")])
    shown = [(a, None if b is None else b.astimezone(dt.UTC), c) for a, b, c in found]
    days = [None if t is None else t.date() for t in times]
    assert shown == list(zip(times, utc, days, strict=True))


@given(
    st.lists(
        st.none()
        | st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
    ),
    st.lists(st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))),
)
def test_arrays_of_any_length_are_the_same(texts: list[Any], numbers: list[Any]) -> None:
    batch = pa.record_batch({"t": pa.array(texts, pa.list_(pa.string()))})
    assert loaded(batch, [WireType("text", True)]) == [(value,) for value in texts]
    batch = pa.record_batch({"n": pa.array(numbers, pa.list_(pa.int32()))})
    assert loaded(batch, [WireType("int8", True)]) == [(value,) for value in numbers]


def test_nested_values_are_json_and_a_null_is_null() -> None:
    kind = pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})
    batch = pa.record_batch({"s": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None}], kind)})
    found = loaded(batch, [WireType("jsonb", nested=True)])
    assert found == [({"a": 1, "b": ["x"]},), (None,), ({"a": None, "b": None},)]


@pytest.mark.parametrize(
    ("wire", "values", "message"),
    [
        (WireType("text"), pa.array(["a\x00"]), r"U\+0000, which Postgres cannot hold"),
        (WireType("text", True), pa.array([["a\x00"]]), r"U\+0000"),
        (WireType("json"), pa.array(["1", "NaN"]), "'c' goes into a JSON column, but 'NaN'"),
        (WireType("jsonb"), pa.array(['{"\\u0000": 1}']), r"JSON with the character \\u0000"),
        (WireType("date"), pa.array([-(2**31)], pa.int32()).cast(pa.date32()), "cannot hold"),
        (
            WireType("text"),
            pa.Array.from_buffers(
                pa.string(),
                1,
                [None, pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff")],
            ),
            "not UTF-8",
        ),
    ],
)
def test_what_postgres_cannot_hold_is_named(wire: WireType, values: pa.Array, message: str) -> None:
    with pytest.raises(BadDataError, match=message):
        encode_rows(pa.record_batch({"c": values}), [WireColumn("c", wire)])


def test_zeros_behind_a_null_are_no_text() -> None:
    offsets, data = pa.py_buffer(struct.pack("<iii", 0, 2, 3)), pa.py_buffer(b"\x00\x00a")
    texts = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    assert loaded(pa.record_batch({"c": texts}), [WireType("text")]) == [(None,), ("a",)]


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    batch = pa.record_batch({"c": pa.array(['"\\\\u0000"'])})
    assert loaded(batch, [WireType("jsonb")]) == [("\\u0000",)]


def test_a_null_where_none_may_be_is_named() -> None:
    batch = pa.record_batch({"c": pa.array([1, None, None])})
    with pytest.raises(BadDataError, match=r"column 'c' .* but 2 rows have no value"):
        encode_rows(batch, [WireColumn("c", WireType("int8"), required=True)])


def test_of_a_key_the_last_row_is_kept_and_the_order_stays() -> None:
    first = pa.record_batch({"a": [1, 2, 1], "b": ["x", "x", "y"], "v": [1, 2, 3]})
    second = pa.record_batch({"a": [2, 3, 2], "b": ["x", "x", "x"], "v": [4, 5, 6]})
    kept = pa.Table.from_batches(last_of_each_key([first, second], ["a", "b"])).to_pylist()
    assert [(row["a"], row["b"], row["v"]) for row in kept] == [
        (1, "x", 1),
        (1, "y", 3),
        (3, "x", 5),
        (2, "x", 6),
    ]
    assert last_of_each_key([first], ["a", "b"]) == [first]
