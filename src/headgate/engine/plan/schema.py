"""Schemas without promises about nulls, and how wide their rows can be."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DatetimeType,
    MapType,
    NumericType,
    StructField,
    StructType,
)


def as_nullable(schema: StructType) -> StructType:
    """Return the schema with every field, element and value nullable."""
    return StructType([StructField(f.name, _nullable(f.dataType), True) for f in schema.fields])


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return as_nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind


def is_fixed_width(kind: DataType) -> bool:
    """Whether every value of a type takes the same few bytes."""
    if isinstance(kind, StructType):
        return all(is_fixed_width(field.dataType) for field in kind.fields)
    return isinstance(kind, NumericType | BooleanType | DatetimeType)
