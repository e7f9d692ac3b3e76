"""Rewrites the leaves of nested Spark types, in the type and in SQL expressions over it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.core.graph import Column

# Given (SQL expression, its type): the SQL to put in its place, or None to leave it.
Leaf = Callable[[str, DataType], str | None]


@lru_cache(maxsize=256)
def struct_of(columns: tuple[Column, ...]) -> StructType:
    """Return the row type of the columns. Needs a running Spark session. Not to be changed."""
    fields = [
        StructField(c.name, StringType() if c.type == "json" else DataType.fromDDL(c.type))
        for c in columns
    ]
    return StructType(fields)


def quoted(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote a text for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_timestamp(kind: DataType) -> bool:
    return isinstance(kind, TimestampType | TimestampNTZType)


def timestamps_as_text(kind: DataType) -> DataType:
    """Return the type with every timestamp read as text, at any depth."""
    return with_leaves(kind, lambda leaf: StringType() if is_timestamp(leaf) else leaf)


def with_leaves(kind: DataType, leaf: Callable[[DataType], DataType]) -> DataType:
    """Return the type with its leaves replaced, at any depth."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, with_leaves(f.dataType, leaf)) for f in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(with_leaves(kind.elementType, leaf))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, with_leaves(kind.valueType, leaf))
    return leaf(kind)


def map_leaves(expr: str, kind: DataType, leaf: Leaf, depth: int = 0) -> str | None:
    """Return SQL for `expr` with its leaves replaced; None if nothing changes."""
    if isinstance(kind, StructType):
        mapped = [
            (f.name, map_leaves(f"{expr}.{quoted(f.name)}", f.dataType, leaf, depth)) for f in kind
        ]
        if all(sql is None for _, sql in mapped):
            return None
        parts = ", ".join(
            f"{literal(name)}, {sql or f'{expr}.{quoted(name)}'}" for name, sql in mapped
        )
        return f"IF({expr} IS NULL, NULL, named_struct({parts}))"
    if isinstance(kind, ArrayType):
        item = map_leaves(f"x{depth}", kind.elementType, leaf, depth + 1)
        return None if item is None else f"transform({expr}, x{depth} -> {item})"
    if isinstance(kind, MapType):
        value = map_leaves(f"v{depth}", kind.valueType, leaf, depth + 1)
        return (
            None if value is None else f"transform_values({expr}, (k{depth}, v{depth}) -> {value})"
        )
    return leaf(expr, kind)


def any_leaf(expr: str, kind: DataType, leaf: Leaf, depth: int = 0) -> str | None:
    """Return SQL that is true if the test holds for any leaf; None if none is tested."""
    if isinstance(kind, StructType):
        tests = [any_leaf(f"{expr}.{quoted(f.name)}", f.dataType, leaf, depth) for f in kind]
        found = [test for test in tests if test is not None]
        return f"({' OR '.join(found)})" if found else None
    if isinstance(kind, ArrayType):
        test = any_leaf(f"x{depth}", kind.elementType, leaf, depth + 1)
        return None if test is None else f"coalesce(exists({expr}, x{depth} -> {test}), false)"
    if isinstance(kind, MapType):
        values = f"map_values({expr})"
        return any_leaf(values, ArrayType(kind.valueType), leaf, depth)
    return leaf(expr, kind)
