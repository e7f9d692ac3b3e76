"""Arrow rows as the tuples of a binary COPY, without touching a row in Python.

A tuple is the number of its fields, and per field the length and the bytes; the length of NULL is
-1. What has the same width in every row (the lengths, and columns of fixed width without nulls) is
laid out by NumPy, in blocks of columns; what has not is a column of bytes; and one kernel of
PyArrow joins blocks and columns row by row. The buffer of its result is what COPY wants.

A value that Postgres cannot take is found here, in the task, before its epoch is recorded: an epoch
that is recorded must be published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.formats.json_encode import JsonStyle, json_text
from headgate.connectors.postgres.numerics import numeric_bytes
from headgate.connectors.postgres.texts import check_json, offsets_of, text_bytes
from headgate.connectors.postgres.types import OIDS, WireType
from headgate.core.errors import BadDataError

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"
# Rows of one call of the kernels: their bytes stay far below what 32-bit offsets can address.
_SLICE_BYTES = 256 << 20

# The bytes of a column of fixed width: one line per row.
Bytes2D: TypeAlias = npt.NDArray[np.uint8]
# The same, or numbers in the order of bytes of the network.
Fixed: TypeAlias = npt.NDArray[Any]

_DAYS_TO_2000 = 10_957
_MICROS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
# The first day of Postgres' calendar is in the year 4713 BC; its dates end in the year 5874897.
_FIRST_DAY, _LAST_DAY = -2_451_545, 2_145_031_948
_NUMBERS = {
    "int2": (pa.int16(), ">i2"),
    "int4": (pa.int32(), ">i4"),
    "int8": (pa.int64(), ">i8"),
    "float4": (pa.float32(), ">f4"),
    "float8": (pa.float64(), ">f8"),
}


@dataclass(frozen=True)
class WireColumn:
    """A column of the rows, and how it is written."""

    name: str
    wire: WireType
    required: bool = False


@dataclass(frozen=True)
class _Values:
    """The values of a column without their lengths: all of one width, or each of its own."""

    lengths: npt.NDArray[np.int64]
    fixed: Fixed | None = None
    bytes: pa.Array | None = None


def encode_rows(batch: pa.RecordBatch, columns: Sequence[WireColumn]) -> list[pa.Buffer]:
    """Return the tuples of the rows, in order; the pieces are to be concatenated."""
    rows = batch.num_rows
    step = max(1, int(rows * _SLICE_BYTES / max(batch.nbytes, 1)))
    pieces = []
    for start in range(0, rows, step):
        part = batch.slice(start, step)
        layout = _Layout(part.num_rows)
        layout.fixed(np.full(part.num_rows, len(columns), ">i2"))
        for column in columns:
            _check_required(part.column(column.name), column)
            layout.field(_values(part.column(column.name), column.wire, column.name))
        pieces.append(layout.joined().buffers()[2])
    return pieces


class _Layout:
    """What follows each other in every row: blocks of fixed width, and columns of bytes."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._block: list[Fixed] = []
        self._pieces: list[pa.Array] = []

    def fixed(self, block: Fixed) -> None:
        self._block.append(block)

    def field(self, values: _Values) -> None:
        """Add a length, and the value behind it."""
        self.fixed(values.lengths.astype(">i4"))
        if values.fixed is not None:
            self.fixed(values.fixed)
        else:
            self.bytes(values.bytes)

    def bytes(self, values: pa.Array) -> None:
        self._end_block()
        self._pieces.append(values)

    def joined(self) -> pa.Array:
        """Return one value of bytes per row. It has no offset, and no bytes beyond its rows."""
        self._end_block()
        if len(self._pieces) == 1:
            return self._pieces[0]
        whole = pc.binary_join_element_wise(*self._pieces, b"")
        size = int(offsets_of(whole)[-1])
        _, offsets, data = whole.buffers()
        return pa.Array.from_buffers(
            pa.binary(), self._rows, [None, offsets, data.slice(0, size) if data else None]
        )

    def _end_block(self) -> None:
        if self._block:
            # As records: NumPy copies a number at once, and not byte by byte.
            names = [f"f{number}" for number in range(len(self._block))]
            parts = dict(zip(names, self._block, strict=True))
            records = np.empty(self._rows, [(n, p.dtype, p.shape[1:]) for n, p in parts.items()])
            for name, part in parts.items():
                records[name] = part
            self._pieces.append(_of_width(_lines(records)))
            self._block = []


def _of_width(block: Bytes2D) -> pa.Array:
    rows, width = block.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)[: rows + 1]
    data = pa.py_buffer(np.ascontiguousarray(block))
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), data])


def _check_required(values: pa.Array, column: WireColumn) -> None:
    if column.required and values.null_count:
        raise BadDataError(
            f"column '{column.name}' is NOT NULL or part of the PRIMARY KEY, but "
            f"{values.null_count} rows have no value: leave them out in the query (WHERE ... IS "
            "NOT NULL), or fill them"
        )


def _values(values: pa.Array, wire: WireType, name: str) -> _Values:
    """Return the bytes of a column. Those of a null do not matter if their length is -1."""
    if wire.is_array:
        return _of_bytes(values, _array_bytes(values, wire, name))
    if wire.nested:
        text = json_text(values, JsonStyle())
        return _of_bytes(values, text_bytes(text, wire, name))
    if wire.name in ("text", "varchar", "bpchar", "json", "jsonb"):
        text = values.cast(pa.string())
        if wire.name in ("json", "jsonb"):
            check_json(text, name)
        return _of_bytes(values, text_bytes(text, wire, name))
    if wire.name == "bytea":
        return _of_bytes(values, values.cast(pa.binary()))
    block = _fixed(values, wire, name)
    if values.null_count == 0:
        width = block.itemsize * (block.shape[1] if block.ndim > 1 else 1)
        return _Values(np.full(len(values), width, np.int64), fixed=block)
    return _of_bytes(values, _of_width(_lines(block)))


def _of_bytes(values: pa.Array, encoded: pa.Array) -> _Values:
    lengths = _filled(pc.binary_length(encoded), 0).to_numpy()
    if values.null_count:
        valid = pc.is_valid(values)
        lengths = np.where(valid.to_numpy(zero_copy_only=False), lengths, -1)
        encoded = pc.if_else(valid, encoded, pa.scalar(b"", pa.binary()))
    return _Values(lengths, bytes=encoded)


def _fixed(values: pa.Array, wire: WireType, name: str) -> Fixed:
    """Return values of fixed width in the order of bytes of the network; a null is anything."""
    kind = wire.name
    if kind in _NUMBERS:
        arrow, layout = _NUMBERS[kind]
        numbers: Fixed = _filled(values.cast(arrow), 0).to_numpy()
        return numbers.astype(layout)
    if kind == "bool":
        flags: Fixed = _filled(values, False).cast(pa.uint8()).to_numpy()
        return flags
    if kind == "numeric":
        return numeric_bytes(values.cast(pa.decimal128(wire.precision, wire.scale)))
    if kind == "date":
        days = _integers(values.cast(pa.date32()).cast(pa.int32())) - _DAYS_TO_2000
        _check_range(values, (days < _FIRST_DAY) | (days > _LAST_DAY), name)
        return days.astype(">i4")
    if kind in ("timestamp", "timestamptz"):
        micros = _integers(values.cast(pa.timestamp("us", values.type.tz)))
        _check_range(values, micros < _MICROS_TO_2000 + _FIRST_DAY * 86_400_000_000, name)
        return (micros - _MICROS_TO_2000).astype(">i8")
    assert kind == "interval", kind
    micros = _integers(values.cast(pa.duration("us")))
    block = np.zeros((len(values), 16), np.uint8)
    block[:, :8] = _lines(micros.astype(">i8"))
    return block


def _lines(numbers: Fixed) -> Bytes2D:
    width = numbers.itemsize * (numbers.shape[1] if numbers.ndim > 1 else 1)
    return numbers.view(np.uint8).reshape(len(numbers), width)


def _filled(values: pa.Array, default: object) -> pa.Array:
    return pc.fill_null(values, default) if values.null_count else values


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    # 2000-01-01 in the place of a null: it is never out of range.
    default = _MICROS_TO_2000 if values.type != pa.int32() else _DAYS_TO_2000
    numbers: npt.NDArray[np.int64] = _filled(values.cast(pa.int64()), default).to_numpy()
    return numbers


def _check_range(values: pa.Array, wrong: npt.NDArray[np.bool_], name: str) -> None:
    if wrong.any():
        number = int(np.argmax(wrong))
        raise BadDataError(
            f"column '{name}' has a value that Postgres cannot hold (row {number} of a batch is "
            f"before its calendar begins, in 4713 BC, or after it ends): leave such rows out in "
            "the query"
        )


def _array_bytes(values: pa.Array, wire: WireType, name: str) -> pa.Array:
    """Return arrays of one dimension: five numbers, then length and bytes of every element.

    The elements are encoded as one column. Those of a row follow each other in its buffer, so a row
    needs no copy of its own.
    """
    lists = values.cast(pa.list_(values.type.value_type))
    elements = lists.flatten()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    layout = _Layout(len(elements))
    if len(elements):
        layout.field(
            _values(elements, WireType(wire.name, False, wire.precision, wire.scale), name)
        )
    ends = np.concatenate([[0], np.cumsum(counts)])
    if len(elements):
        joined = layout.joined()
        places, data = offsets_of(joined)[ends].astype(np.int32), joined.buffers()[2]
    else:
        places, data = np.zeros(len(lists) + 1, np.int32), pa.py_buffer(b"")
    bodies = pa.Array.from_buffers(pa.binary(), len(lists), [None, pa.py_buffer(places), data])
    head = np.zeros((len(lists), 5), ">i4")
    head[:, 0] = counts > 0
    head[:, 1] = int(elements.null_count > 0)
    head[:, 2] = OIDS[wire.name][0]
    head[:, 3] = counts
    head[:, 4] = 1
    whole = _of_width(_lines(head))
    # An array without elements has no dimensions.
    empty = pc.binary_slice(whole, 0, 12)
    return pc.binary_join_element_wise(pc.if_else(pa.array(counts > 0), whole, empty), bodies, b"")
