"""Arrow rows as JSON lines, without touching a row in Python.

A column becomes a column of JSON texts, and the columns of a row are joined by one kernel. The
rules are in `docs/connectors.md`, "JSON output".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.formats.text import buffer_of, joined, scalar_text

# Texts of one slice are far below the 2 GB that 32-bit offsets can address.
SLICE_ROWS = 32_768

_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
}
_SHORT = set(_ESCAPES)
_OTHER_CONTROLS = [chr(code) for code in range(32) if chr(code) not in _SHORT]


@dataclass(frozen=True)
class JsonStyle:
    """What the options may change."""

    timestamps_as_millis: bool = False
    decimals_as_text: bool = False
    # Top-level text columns that hold JSON already: written as they are.
    raw_columns: frozenset[str] = frozenset()


def json_lines(batch: pa.RecordBatch, style: JsonStyle) -> list[pa.Buffer]:
    """Return the rows as JSON, one object per line; the pieces are to be concatenated."""
    slices = (batch.slice(at, SLICE_ROWS) for at in range(0, batch.num_rows, SLICE_ROWS))
    return [buffer_of(joined(json_objects(rows, style), "\n")) for rows in slices]


def json_objects(rows: pa.RecordBatch, style: JsonStyle) -> pa.Array:
    """Return the rows as JSON, one object each."""
    columns = {
        name: raw_json(column) if name in style.raw_columns else json_text(column, style)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }
    return _object(columns, len(rows))


def json_text(values: pa.Array, style: JsonStyle) -> pa.Array:
    """Return the JSON text of every element; a null element is `null`."""
    return pc.fill_null(_nullable_text(values, style), "null")


def raw_json(values: pa.Array) -> pa.Array:
    """Return text that is JSON already; nothing is `null`."""
    return pc.fill_null(values.cast(pa.string()), "null")


def _nullable_text(values: pa.Array, style: JsonStyle) -> pa.Array:
    kind = values.type
    if pa.types.is_struct(kind):
        fields = {
            kind.field(i).name: json_text(pc.struct_field(values, [i]), style)
            for i in range(kind.num_fields)
        }
        return _where_valid(values, _object(fields, len(values)))
    if pa.types.is_map(kind):
        return _map_text(values, style)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = json_text(values.flatten(), style)
        return _where_valid(values, joined("[", _join_lists(values, items), "]"))
    text = scalar_text(values, timestamps_as_millis=style.timestamps_as_millis)
    return quoted(text) if _needs_quotes(kind, style) else text


def _needs_quotes(kind: pa.DataType, style: JsonStyle) -> bool:
    if pa.types.is_timestamp(kind):
        return not style.timestamps_as_millis
    if pa.types.is_decimal(kind):
        return style.decimals_as_text
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_date(kind)
    )


def _object(fields: dict[str, pa.Array], rows: int) -> pa.Array:
    if not fields:
        return pa.array(["{}"] * rows, pa.string())
    parts: list[Any] = []
    opening = "{"
    for name, text in fields.items():
        parts += [f"{opening}{json.dumps(name, ensure_ascii=False)}:", text]
        opening = ","
    return joined(*parts, "}")


def _map_text(values: pa.MapArray, style: JsonStyle) -> pa.Array:
    entries = values.cast(
        pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)]))
    )
    flat = entries.flatten()
    keys = quoted(scalar_text(pc.struct_field(flat, [0])))
    pairs = joined(keys, ":", json_text(pc.struct_field(flat, [1]), style))
    return _where_valid(values, joined("{", _join_lists(entries, pairs), "}"))


def _join_lists(lists: pa.Array, items: pa.Array) -> pa.Array:
    """Join the texts of each list's items with commas; `items` are those of the valid lists."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")


def _where_valid(values: pa.Array, text: pa.Array) -> pa.Array:
    if values.null_count == 0:
        return text
    return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))


def quoted(text: pa.Array) -> pa.Array:
    """Quote and escape strings as JSON does."""
    if pc.any(pc.match_substring_regex(text, r'["\\\x00-\x1f]')).as_py():
        for character, escape in _ESCAPES.items():
            text = pc.replace_substring(text, character, escape)
        if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
            for character in _OTHER_CONTROLS:
                text = pc.replace_substring(text, character, f"\\u{ord(character):04x}")
    return joined('"', text, '"')
