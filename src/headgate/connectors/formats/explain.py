"""Says what is wrong with a row that could not be read. Pure, and never asked for a good row.

Spark parses rows and says of a bad one only that it is bad. That is found out here afterwards, from
the text of the row: slowly, and in words. A row of which nothing wrong is found gets no reason;
that it is bad is not decided here.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import Any

from headgate.connectors.formats.column_types import ColumnType, parse_type, sql_name
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.lines import NOT_UTF8
from headgate.core.dropped import shortened
from headgate.core.graph import Column

VALUE_CHARACTERS = 60
_TIMESTAMP = re.compile(r"-?[0-9]{1,19}$|[0-9]{4,6}-[0-9]{1,2}(-[0-9]{1,2}([T ].*)?)?$")
_DATE = re.compile(r"[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}([T ].*)?$")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$")
_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity", "+Infinity", "INF", "+INF", "-INF", "Inf"})
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WITHOUT_BEFORE = (
    "a change without the row that was there before (Postgres: REPLICA IDENTITY FULL, MySQL: "
    "binlog_row_image = FULL)"
)
_TRUNCATE = "a truncate: the rows that it removes are not in the stream"


def explain_row(columns: Sequence[Column], options: SourceFormat, raw: str) -> str | None:
    """Return what is wrong with a row; None if nothing is found."""
    if raw == NOT_UTF8:
        return "not UTF-8"
    if options.format == "csv":
        return _csv_row(columns, options, raw)
    if options.format == "raw_string" or options.json_unstructured:
        return None
    try:
        value = json.loads(raw)
    except ValueError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "not JSON that can be read: it is nested too deeply"
    if options.format == "debezium_json":
        return _change(columns, value)
    # The objects of an array are rows of their own.
    for row in value if isinstance(value, list) and value else [value]:
        if not isinstance(row, dict):
            return f"expected a JSON object, found {_named(row)}"
        found = _object(columns, row)
        if found is not None:
            return found
    return None


def _object(columns: Sequence[Column], row: dict[str, Any]) -> str | None:
    for column in columns:
        value = row.get(column.name)
        if value is None:
            if not column.nullable:
                there = "null" if column.name in row else "nothing"
                return f"column '{column.name}' is NOT NULL, found {there}"
            continue
        kind = parse_type(column.type)
        wrong = _json_value(kind, value)
        if wrong is not None:
            path, expected, found = wrong
            return f"column '{column.name}{path}': expected {expected}, found {_named(found)}"
    return None


# The path to a value inside a column, the type expected there, and what was found.
_Wrong = tuple[str, str, Any]


def _json_value(kind: ColumnType, value: Any) -> _Wrong | None:
    """Find the first value that a JSON value of a column has and its type does not allow."""
    if value is None:
        return None
    match kind.name:
        case "array":
            if not isinstance(value, list):
                return "", sql_name(kind), value
            items = ((f"[{at}]", _json_value(kind.items[0], v)) for at, v in enumerate(value))
            return next((_below(path, wrong) for path, wrong in items if wrong is not None), None)
        case "map":
            if not isinstance(value, dict):
                return "", sql_name(kind), value
            entries = ((f"[{key!r}]", _json_value(kind.items[1], v)) for key, v in value.items())
            return next((_below(path, wrong) for path, wrong in entries if wrong is not None), None)
        case "struct":
            if not isinstance(value, dict):
                return "", sql_name(kind), value
            fields = (
                (f".{name}", _json_value(inner, value.get(name)))
                for name, inner in zip(kind.names, kind.items, strict=True)
            )
            return next((_below(path, wrong) for path, wrong in fields if wrong is not None), None)
    return None if _is_json_of(kind, value) else ("", sql_name(kind), value)


def _below(path: str, wrong: _Wrong) -> _Wrong:
    return path + wrong[0], wrong[1], wrong[2]


def _is_json_of(kind: ColumnType, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return isinstance(value, int) and not isinstance(value, bool) and _fits(kind, value)
        case "float" | "double":
            return is_number or value in _NO_NUMBERS
        case "decimal":
            return is_number or (isinstance(value, str) and _NUMBER.match(value) is not None)
        case "boolean":
            return isinstance(value, bool)
        case "timestamp" | "timestamp_ntz":
            return _TIMESTAMP.match(str(value)) is not None
        case "date":
            return isinstance(value, str) and _DATE.match(value) is not None
        case "binary":
            return isinstance(value, str)
    # Text takes everything; of the rest nothing is known here.
    return True


def _fits(kind: ColumnType, value: int) -> bool:
    half = 1 << (_BITS[kind.name] - 1)
    return -half <= value < half


def _csv_row(columns: Sequence[Column], options: SourceFormat, raw: str) -> str | None:
    try:
        fields = next(csv.reader([raw], delimiter=options.csv_delimiter, strict=True), [])
    except csv.Error as error:
        return f"not csv: {error}"
    if len(fields) != len(columns):
        names = ", ".join(c.name for c in columns)
        values = "1 value" if len(fields) == 1 else f"{len(fields)} values"
        return f"expected {len(columns)} values ({names}), found {values}"
    for column, field in zip(columns, fields, strict=True):
        kind = parse_type(column.type)
        if field == "":
            if not column.nullable and kind.name != "string":
                return f"column '{column.name}' is NOT NULL, found nothing"
            continue
        if not _is_text_of(kind, field):
            return f"column '{column.name}': expected {sql_name(kind)}, found {_named(field)}"
    return None


def _is_text_of(kind: ColumnType, text: str) -> bool:
    match kind.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return re.fullmatch(r"[+-]?[0-9]+", text) is not None and _fits(kind, int(text))
        case "float" | "double":
            return _NUMBER.match(text) is not None or text in _NO_NUMBERS
        case "decimal":
            return _NUMBER.match(text) is not None
        case "boolean":
            return text.lower() in ("true", "false")
        case "timestamp" | "timestamp_ntz":
            return _TIMESTAMP.match(text) is not None
        case "date":
            return _DATE.match(text) is not None
    return True


def _change(columns: Sequence[Column], value: Any) -> str | None:
    """Explain a change; how its values are written is the database's business, mostly."""
    if not isinstance(value, dict):
        return f"expected a change (before, after, op), found {_named(value)}"
    change = value
    if change.get("op") is None and isinstance(change.get("payload"), dict):
        change = change["payload"]
    op = change.get("op")
    if op == "t":
        return _TRUNCATE
    if op not in ("c", "r", "u", "d"):
        return f"expected op 'c', 'r', 'u' or 'd', found {_named(op)}"
    if op in ("u", "d") and change.get("before") is None:
        return _WITHOUT_BEFORE
    for side in ("before", "after"):
        if side == ("before" if op in ("c", "r") else "after" if op == "d" else ""):
            continue
        row = change.get(side)
        if not isinstance(row, dict):
            return f"expected a row as '{side}', found {_named(row)}"
        plain = [c for c in columns if parse_type(c.type).name not in ("date", "decimal")]
        wrong = _object(plain, row)
        if wrong is not None:
            return f"{side}: {wrong}"
    return None


def _named(value: Any) -> str:
    """Return a value as JSON, with what kind it is if that is not plain to see."""
    if value is None:
        return "null"
    text = shortened(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS)
    match value:
        case str():
            return f"the text {text}"
        case bool():
            return text
        case int() | float():
            return f"the number {text}"
        case list():
            return f"the array {text}"
    return f"the object {text}"
