"""The columns of rows that nobody has declared: from values to types, the same ones every time.

Pure. A type is the narrowest that holds every value which was looked at: BIGINT, then DOUBLE;
BOOLEAN; TIMESTAMP for texts in ISO form; objects as STRUCT while each of their fields has one type,
arrays while their elements have one; whatever else mixes is JSON, and TEXT if it is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.model import JsonValue

# A struct is written out in every error and plan: with more fields, JSON is easier to live with.
FIELDS_MAX = 20
DEPTH_MAX = 2

_BIGINT_MAX = 2**63 - 1
# With seconds or without, a fraction, an offset or Z; a date alone is a date.
_ISO_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?\Z"
)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_INTEGER = re.compile(r"[+-]?\d{1,19}\Z")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")


@dataclass
class Seen:
    """What has been seen in one place: kinds of values, and what is below objects and arrays."""

    kinds: set[str] = field(default_factory=set)
    nulls: bool = False
    fields: dict[str, Seen] = field(default_factory=dict)
    elements: Seen | None = None

    def add(self, value: JsonValue) -> None:
        """Take in one value of JSON."""
        if value is None:
            self.nulls = True
            return
        self.kinds.add(_kind(value))
        if isinstance(value, dict):
            for name, inner in value.items():
                self.fields.setdefault(name, Seen()).add(inner)
        elif isinstance(value, list):
            if self.elements is None:
                self.elements = Seen()
            for element in value:
                self.elements.add(element)

    def type(self, depth: int = 0) -> str:
        """Return the SQL type that holds everything that was seen."""
        kinds = self.kinds
        if not kinds:
            return "TEXT"
        if kinds == {"object"}:
            return self._struct(depth)
        if kinds == {"array"}:
            return self._array(depth)
        if kinds & {"object", "array"}:
            return "JSON"
        if kinds <= {"BIGINT", "DOUBLE"}:
            return "DOUBLE" if "DOUBLE" in kinds else "BIGINT"
        if kinds <= {"DATE", "TIMESTAMP"}:
            return "TIMESTAMP" if "TIMESTAMP" in kinds else "DATE"
        if len(kinds) == 1:
            return next(iter(kinds))
        # Text of a file is text, whatever it looks like; values of two types are not.
        return "TEXT" if kinds <= {"TEXT", "DATE", "TIMESTAMP"} else "JSON"

    def _struct(self, depth: int) -> str:
        if depth >= DEPTH_MAX or not 0 < len(self.fields) <= FIELDS_MAX:
            return "JSON"
        inner = {name: seen.type(depth + 1) for name, seen in self.fields.items()}
        if "JSON" in inner.values():
            return "JSON"
        written = ", ".join(f"{quoted(name)} {kind}" for name, kind in inner.items())
        return f"STRUCT<{written}>"

    def _array(self, depth: int) -> str:
        inner = self.elements.type(depth + 1) if self.elements is not None else "JSON"
        if inner == "JSON" or self.elements is None or not self.elements.kinds:
            return "JSON"
        return f"{inner}[]"


@dataclass(frozen=True)
class InferredColumn:
    name: str
    type: str
    # Whether every row that was looked at had a value.
    always: bool


def columns_of_objects(rows: Iterable[Mapping[str, JsonValue]]) -> tuple[InferredColumn, ...]:
    """Return the columns of JSON objects, in the order in which their names first appear."""
    seen: dict[str, Seen] = {}
    met: dict[str, int] = {}
    count = 0
    for row in rows:
        count += 1
        for name, value in row.items():
            seen.setdefault(name, Seen()).add(value)
            met[name] = met.get(name, 0) + 1
    return tuple(
        InferredColumn(name, found.type(), always=not found.nulls and met[name] == count)
        for name, found in seen.items()
    )


def columns_of_texts(
    names: Sequence[str], rows: Iterable[Sequence[str]]
) -> tuple[InferredColumn, ...]:
    """Return the columns of a CSV file, whose values are all text; an empty one is no value."""
    seen = [Seen() for _ in names]
    for row in rows:
        for place, found in enumerate(seen):
            text = row[place] if place < len(row) else ""
            if text == "":
                found.nulls = True
            else:
                found.kinds.add(_kind_of_text(text))
    return tuple(
        # What mixes in a CSV file is text: it has no values of several types.
        InferredColumn(name, kind if (kind := found.type()) != "JSON" else "TEXT", not found.nulls)
        for name, found in zip(names, seen, strict=True)
    )


def quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
    return name if plain else '"' + name.replace('"', '""') + '"'


def _kind(value: JsonValue) -> str:
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -_BIGINT_MAX - 1 <= value <= _BIGINT_MAX else "DOUBLE"
        case float():
            return "DOUBLE"
        case str():
            return _kind_of_moment(value) or "TEXT"
        case dict():
            return "object"
        case _:
            return "array"


def _kind_of_text(text: str) -> str:
    # 007 is no number: its zeros mean something.
    leading_zero = re.match(r"[+-]?0\d", text) is not None
    if not leading_zero and _INTEGER.match(text) and abs(int(text)) <= _BIGINT_MAX:
        return "BIGINT"
    if not leading_zero and _DECIMAL.match(text):
        return "DOUBLE"
    if text.lower() in ("true", "false"):
        return "BOOLEAN"
    return _kind_of_moment(text) or "TEXT"


def _kind_of_moment(text: str) -> str | None:
    if _ISO_TIME.match(text):
        return "TIMESTAMP"
    return "DATE" if _ISO_DATE.match(text) else None
