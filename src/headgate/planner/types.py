"""SQL types as Spark DDL type strings, and a guess at the type of an expression.

Catalyst knows the types; the planner asks only if it must choose between two ways of computing
the same thing. `None` means: not known here.
"""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at

_SIMPLE = {
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.TINYINT: "tinyint",
    # Spark has no unsigned integers: the next larger type holds them, and the largest keeps its
    # width, because a decimal in its place would change the type of every expression around it.
    exp.DType.UTINYINT: "smallint",
    exp.DType.USMALLINT: "int",
    exp.DType.UINT: "bigint",
    exp.DType.UBIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.VARCHAR: "string",
    exp.DType.CHAR: "string",
    exp.DType.NVARCHAR: "string",
    exp.DType.NCHAR: "string",
    exp.DType.BPCHAR: "string",
    exp.DType.NAME: "string",
    exp.DType.UUID: "string",
    exp.DType.JSON: "string",
    exp.DType.JSONB: "string",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp",
    exp.DType.DATETIME: "timestamp",
    exp.DType.INTERVAL: "interval day to second",
    exp.DType.VARBINARY: "binary",
    exp.DType.BINARY: "binary",
    exp.DType.BLOB: "binary",
}

INTEGRAL = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATING = frozenset({"float", "double"})


def spark_type(data_type: exp.DataType) -> str:
    """Return the Spark DDL type, or raise a `SqlError` for a type that Spark cannot hold."""
    kind = data_type.this
    if kind in (exp.DType.ARRAY, exp.DType.LIST):
        if not data_type.expressions:
            raise error_at(data_type, "an array type needs the type of its elements")
        return f"array<{spark_type(data_type.expressions[0])}>"
    if kind == exp.DType.MAP and len(data_type.expressions) == 2:
        key, value = data_type.expressions
        return f"map<{spark_type(key)},{spark_type(value)}>"
    if kind in (exp.DType.STRUCT, exp.DType.OBJECT):
        return f"struct<{','.join(_struct_field(f) for f in data_type.expressions)}>"
    if kind in (exp.DType.DECIMAL, exp.DType.UDECIMAL, exp.DType.BIGDECIMAL):
        return _decimal(data_type)
    if isinstance(kind, exp.DType) and kind in _SIMPLE:
        return _SIMPLE[kind]
    name = data_type.sql(dialect="postgres")
    raise error_at(data_type, f"unsupported type {name}")


def _struct_field(field: exp.Expr) -> str:
    if not isinstance(field, exp.ColumnDef) or not isinstance(field.kind, exp.DataType):
        raise error_at(field, "a struct type is written struct<name type, ...>")
    return f"{quote_name(field.name)}:{spark_type(field.kind)}"


def quote_name(name: str) -> str:
    """Quote a name for a DDL type string if it is not a plain word."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def _decimal(data_type: exp.DataType) -> str:
    sizes = [int(e.name) for e in data_type.expressions if e.name.isdigit()]
    if not sizes:
        return "decimal(38,10)"
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    if not 1 <= precision <= 38 or scale > precision:
        raise error_at(data_type, f"decimal({precision},{scale}): precision is 1 to 38, scale less")
    return f"decimal({precision},{scale})"


def field_type(outer: str, name: str) -> str | None:
    """Return the type of a struct's field; None if the type is no struct or lacks the field."""
    if not outer.startswith("struct<"):
        return None
    for part in split_type(outer[len("struct<") : -1]):
        field, _, kind = part.partition(":")
        if field.strip("`").lower() == name.lower():
            return kind
    return None


def element_type(outer: str) -> str | None:
    """Return the type of an array's elements or of a map's values."""
    if outer.startswith("array<"):
        return outer[len("array<") : -1]
    if outer.startswith("map<"):
        return split_type(outer[len("map<") : -1])[1]
    return None


def split_type(text: str) -> list[str]:
    """Split at the commas that are not inside a nested type."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
