"""What Spark does to rows before a sink writes them as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, DataType, DayTimeIntervalType, YearMonthIntervalType

from headgate.connectors.formats.leaves import map_leaves, quoted
from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HIDDEN = (TIMESTAMP_COLUMN, OP_COLUMN)


def drop_hidden(df: DataFrame, keep: tuple[str, ...] = ()) -> DataFrame:
    """Drop the hidden columns, but for those to keep."""
    return df.drop(*(name for name in HIDDEN if name not in keep))


def prepare_text(df: DataFrame, keep: tuple[str, ...] = ()) -> DataFrame:
    """Turn binary values into base64 and intervals into text, at any depth; drop hidden columns."""
    changed = False
    chosen = []
    for field in df.schema:
        if field.name in HIDDEN and field.name not in keep:
            changed = True
            continue
        name = quoted(field.name)
        sql = map_leaves(name, field.dataType, _text_leaf)
        changed |= sql is not None
        chosen.append(name if sql is None else f"{sql} AS {name}")
    return df.selectExpr(*chosen) if changed else df


def _text_leaf(expr: str, kind: DataType) -> str | None:
    if isinstance(kind, BinaryType):
        return f"base64({expr})"
    if isinstance(kind, DayTimeIntervalType | YearMonthIntervalType):
        return f"CAST({expr} AS STRING)"
    return None
