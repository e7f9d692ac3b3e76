"""Types: what a declared column is in Postgres, and what a column of a real table takes. Pure.

A row travels in the binary form of COPY, so each column has a *wire type*. It is the type of the
real column if the value can be written as that without loss; then the bytes go straight into the
table. Else it is the natural type of the declared column, and Postgres converts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.errors import UserError
from headgate.core.graph import Column

# pg_type.typname -> (oid, the name in SQL): the types that can be on the wire.
OIDS: Mapping[str, tuple[int, str]] = {
    "bool": (16, "boolean"),
    "bytea": (17, "bytea"),
    "int8": (20, "bigint"),
    "int2": (21, "smallint"),
    "int4": (23, "integer"),
    "text": (25, "text"),
    "json": (114, "json"),
    "float4": (700, "real"),
    "float8": (701, "double precision"),
    "bpchar": (1042, "bpchar"),
    "varchar": (1043, "varchar"),
    "date": (1082, "date"),
    "timestamp": (1114, "timestamp"),
    "timestamptz": (1184, "timestamptz"),
    "interval": (1186, "interval"),
    "numeric": (1700, "numeric"),
    "jsonb": (3802, "jsonb"),
}
_SIMPLE = {
    "tinyint": "int2",
    "smallint": "int2",
    "int": "int4",
    "bigint": "int8",
    "float": "float4",
    "double": "float8",
    "string": "text",
    "json": "text",
    "boolean": "bool",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
    "interval day to second": "interval",
}
# Which real types take a kind, the natural one first.
_TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    "int2": ("int2", "int4", "int8", "numeric"),
    "int4": ("int4", "int8", "numeric"),
    "int8": ("int8", "numeric"),
    "float4": ("float4", "float8"),
    "float8": ("float8",),
    "numeric": ("numeric",),
    "text": ("text", "varchar", "bpchar", "json", "jsonb", "uuid", "citext"),
    "json": ("jsonb", "json", "text"),
    "bool": ("bool",),
    "date": ("date",),
    "timestamptz": ("timestamptz", "timestamp"),
    "timestamp": ("timestamp", "timestamptz"),
    "bytea": ("bytea",),
    "interval": ("interval",),
}
# Real types that have no wire form here, or that Postgres converts to only if it is told.
_CAST = ("uuid", "citext", "json", "jsonb")


@dataclass(frozen=True)
class DeclaredType:
    """A type of the dialect: its natural type in Postgres, of the elements if it is an array."""

    kind: str
    is_array: bool = False
    precision: int = 0
    scale: int = 0

    def sql(self) -> str:
        """Return the type that a created table gets."""
        name = "jsonb" if self.kind == "json" else OIDS[self.kind][1]
        if self.kind == "numeric":
            name = f"numeric({self.precision},{self.scale})"
        return f"{name}[]" if self.is_array else name


@dataclass(frozen=True)
class RealType:
    """The type of a column of a real table, as the catalog has it."""

    # pg_type.typname, of the elements if it is an array.
    name: str
    oid: int
    # As a person writes it: "character varying(10)".
    shown: str
    is_array: bool = False
    is_enum: bool = False
    # Of a numeric; None = any.
    precision: int | None = None
    scale: int | None = None

    def takes(self, declared: DeclaredType) -> bool:
        """Whether every value of a declared column can be a value of this one."""
        if self.is_array != declared.is_array:
            return declared.is_array and self.name in ("json", "jsonb")
        if declared.kind == "text" and self.is_enum:
            return not self.is_array
        if self.name not in _TAKEN_BY[declared.kind]:
            return False
        if self.is_array and self.name in ("json", "jsonb", "uuid", "citext"):
            return False
        if self.name == "numeric" and self.precision is not None and self.scale is not None:
            digits, scale = _digits_of(declared)
            return self.scale >= scale and self.precision - self.scale >= digits
        return True

    def cast_from(self, wire: WireType) -> str:
        """Return the cast that a value on the wire needs beyond what an INSERT does; or nothing."""
        if wire.oid == self.oid:
            return ""
        return f"::{self.shown}" if self.is_enum or self.name in _CAST else ""

    @property
    def key_cast(self) -> str:
        """Return the cast that a text needs to be compared with this; or nothing."""
        return f"::{self.shown}" if self.is_enum or self.name in ("uuid", "citext") else ""


@dataclass(frozen=True)
class WireType:
    """How the values of one column are written."""

    # A key of `OIDS`, of the elements if it is an array.
    name: str
    is_array: bool = False
    precision: int = 0
    scale: int = 0
    # The values are arrays, structs or maps, written as JSON text.
    nested: bool = False

    @property
    def oid(self) -> int:
        return _ARRAY_OIDS[self.name] if self.is_array else OIDS[self.name][0]

    @property
    def sql(self) -> str:
        return OIDS[self.name][1] + ("[]" if self.is_array else "")


_ARRAY_OIDS: Mapping[str, int] = {
    "bool": 1000,
    "bytea": 1001,
    "int8": 1016,
    "int2": 1005,
    "int4": 1007,
    "text": 1009,
    "float4": 1021,
    "float8": 1022,
    "bpchar": 1014,
    "varchar": 1015,
    "date": 1182,
    "timestamp": 1115,
    "timestamptz": 1185,
    "interval": 1187,
    "numeric": 1231,
}


def declared_type(column: Column) -> DeclaredType:
    """Return what a declared column is in Postgres, or raise `UserError`."""
    kind = column.type.strip().lower()
    if kind.startswith(("struct<", "map<")):
        return DeclaredType("json")
    if kind.startswith("array<"):
        element = kind[len("array<") : -1]
        if element.startswith(("array<", "struct<", "map<")):
            return DeclaredType("json")
        inner = declared_type(Column(name=column.name, type=element))
        return DeclaredType(inner.kind, True, inner.precision, inner.scale)
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind)
    if decimal is not None:
        return DeclaredType("numeric", precision=int(decimal[1]), scale=int(decimal[2]))
    if kind not in _SIMPLE:
        raise UserError(
            f"column '{column.name}' is {column.type}, which has no type in Postgres: cast it to "
            "TEXT in the query",
            code="options",
        )
    return DeclaredType(_SIMPLE[kind])


def taken_by(declared: DeclaredType) -> str:
    """Name the types of real columns that take a declared one, for a message."""
    names = [OIDS[n][1] if n in OIDS else n for n in _TAKEN_BY[declared.kind]]
    if declared.is_array:
        plain = [f"{n}[]" for n in names if n not in ("json", "jsonb", "uuid", "citext")]
        names = [*plain, "jsonb", "json"]
    if declared.kind == "numeric" and not declared.is_array:
        names = [declared.sql()]
    return ", ".join(names)


def wire_type(declared: DeclaredType, real: RealType) -> WireType:
    """Choose how the values of a declared column are written for a real one that takes them."""
    if declared.kind == "json" or declared.is_array != real.is_array:
        return WireType(real.name if real.name in ("json", "jsonb") else "text", nested=True)
    # Everything that takes them has these bytes too, but for what Postgres has to convert.
    same_bytes = real.name in OIDS and (real.name == "numeric") == (declared.kind == "numeric")
    name = real.name if same_bytes and not real.is_enum else declared.kind
    return WireType(name, declared.is_array, declared.precision, declared.scale)


def _digits_of(declared: DeclaredType) -> tuple[int, int]:
    """Return how many digits a value has before and behind the point."""
    integers = {"int2": 5, "int4": 10, "int8": 19}
    if declared.kind in integers:
        return integers[declared.kind], 0
    return declared.precision - declared.scale, declared.scale
