"""Arrow arrays as text, column by column: the forms that json and csv share.

Everything is a PyArrow kernel over a whole column. Nulls stay null. Binary values and intervals do
not come here: `prepare.py` has Spark turn them into text first.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def scalar_text(values: pa.Array, *, timestamps_as_millis: bool = False) -> pa.Array:
    """Return the text of numbers, booleans, dates, timestamps and strings, without quotes."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_floating(kind):
        return float_text(values)
    if pa.types.is_timestamp(kind):
        return millis_text(values) if timestamps_as_millis else timestamp_text(values)
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_null(kind)
        or pa.types.is_large_string(kind)
    ):
        return pc.cast(values, pa.string())
    raise TypeError(f"no text form for the Arrow type {kind}")


def float_text(values: pa.Array) -> pa.Array:
    """Return the shortest text that reads back as the same number of the same width.

    JSON has no way to write NaN and the infinities: they are null.
    """
    finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    text = pc.cast(finite, pa.string())
    whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
    if pc.any(whole).as_py():
        text = pc.if_else(whole, joined(text, ".0"), text)
    if pc.any(pc.match_substring(text, "e+")).as_py():
        text = pc.replace_substring(text, "e+", "e")
    return text


def timestamp_text(values: pa.Array) -> pa.Array:
    """Return naive UTC, `2023-10-09T17:13:40.200`, with 0, 3 or 6 digits as needed."""
    naive = (
        values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
    )
    text = pc.replace_substring(pc.cast(naive, pa.string()), " ", "T", max_replacements=1)
    millis = pc.ends_with(text, "000")
    if not pc.any(millis).as_py():
        return text
    seconds = pc.ends_with(text, ".000000")
    shorter = pc.if_else(millis, pc.utf8_slice_codeunits(text, 0, -3), text)
    return pc.if_else(seconds, pc.utf8_slice_codeunits(text, 0, -7), shorter)


def millis_text(values: pa.Array) -> pa.Array:
    """Return milliseconds since 1970, rounded down."""
    micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    quotient = pc.divide(micros, 1_000)
    rest = pc.subtract(micros, pc.multiply(quotient, 1_000))
    floor = pc.if_else(pc.less(rest, 0), pc.subtract(quotient, 1), quotient)
    return pc.cast(floor, pa.string())


def joined(*parts: Any) -> pa.Array:
    """Concatenate texts element by element; a null part makes the result null."""
    return pc.binary_join_element_wise(*parts, "")


def buffer_of(text: pa.Array) -> pa.Buffer:
    """Return the characters of all elements, one after the other, without copying."""
    if isinstance(text, pa.ChunkedArray):
        text = text.combine_chunks()
    if len(text) == 0:
        return pa.py_buffer(b"")
    offsets = pa.Array.from_buffers(
        pa.int32(), len(text) + 1, [None, text.buffers()[1]], offset=text.offset
    )
    first, last = offsets[0].as_py(), offsets[len(text)].as_py()
    data = text.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(first, last - first)
