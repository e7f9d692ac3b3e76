"""Python values as SQL text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from headgate.core.errors import UserError

Scalar: TypeAlias = str | int | float | bool | timedelta | Path
Option: TypeAlias = Scalar | Sequence[str]
# The type of a column: SQL text (`BIGINT NOT NULL`, `TEXT METADATA FROM 'topic'`), or a class.
ColumnType: TypeAlias = str | type
Columns: TypeAlias = Mapping[str, ColumnType]

_TYPES: dict[type, str] = {
    bool: "BOOLEAN",
    bytes: "BYTEA",
    date: "DATE",
    datetime: "TIMESTAMP",
    Decimal: "DECIMAL(38, 10)",
    float: "DOUBLE",
    int: "BIGINT",
    str: "TEXT",
    timedelta: "INTERVAL",
}
_UNITS = (
    ("days", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("minutes", 60_000_000),
    ("seconds", 1_000_000),
    ("milliseconds", 1_000),
    ("microseconds", 1),
)


def name_text(name: str) -> str:
    """Return a name, quoted so that every word and every character may be in it."""
    if not name:
        raise UserError("a name is empty", code="pipeline")
    return '"' + name.replace('"', '""') + '"'


def string_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def interval_text(length: timedelta) -> str:
    """Return a length of time in the largest unit that divides it."""
    microseconds = length // timedelta(microseconds=1)
    for unit, size in _UNITS:
        if microseconds % size == 0:
            return f"interval '{microseconds // size} {unit}'"
    raise AssertionError("every length is a number of microseconds")


def option_text(key: str, value: Option) -> str:
    """Return the value of one option of a WITH clause."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, timedelta):
        return interval_text(value)
    if isinstance(value, str | Path):
        return string_text(str(value))
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return "[" + ", ".join(string_text(item) for item in value) + "]"
    raise UserError(
        f"option '{key}': {type(value).__name__} is no value of an option", code="pipeline"
    )


def type_text(column: str, kind: ColumnType) -> str:
    """Return the type of a column, and whatever the text says after it."""
    if isinstance(kind, str):
        return kind
    found = _TYPES.get(kind)
    if found is None:
        known = ", ".join(sorted(k.__name__ for k in _TYPES))
        raise UserError(
            f"column '{column}': {kind!r} has no SQL type; the classes are {known}, anything else "
            "is written as SQL: 'TEXT[]'",
            code="pipeline",
        )
    return found


def table_text(
    name: str,
    *,
    columns: Columns | None,
    clauses: Sequence[str] = (),
    options: Mapping[str, Option],
    temporary: bool = False,
) -> str:
    """Return a CREATE TABLE statement."""
    elements = [f"{name_text(c)} {type_text(c, kind)}" for c, kind in (columns or {}).items()]
    elements += clauses
    declared = " (\n  " + ",\n  ".join(elements) + "\n)" if elements else ""
    given = ",\n  ".join(f"{string_text(k)} = {option_text(k, v)}" for k, v in options.items())
    kind = "TEMPORARY TABLE" if temporary else "TABLE"
    return f"CREATE {kind} {name_text(name)}{declared} WITH (\n  {given}\n)"


def key_clause(primary_key: str | Sequence[str]) -> list[str]:
    """Return the PRIMARY KEY clause, if there is a key."""
    names = [primary_key] if isinstance(primary_key, str) else list(primary_key)
    return [f"PRIMARY KEY ({', '.join(name_text(n) for n in names)})"] if names else []


def watermark_clause(event_time: str | None, watermark: str | timedelta | None) -> list[str]:
    """Return the WATERMARK clause; a length of time is how late a row may be."""
    if event_time is None:
        if watermark is not None:
            raise UserError("watermark is given without event_time", code="pipeline")
        return []
    column = name_text(event_time)
    if watermark is None:
        return [f"WATERMARK FOR {column}"]
    if isinstance(watermark, timedelta):
        watermark = f"{column} - {interval_text(watermark)}"
    return [f"WATERMARK FOR {column} AS {watermark}"]


def statement_text(text: str) -> str:
    """Return statements without the blanks and the semicolon at their end."""
    return text.strip().removesuffix(";").rstrip()
