"""What Spark does to rows before a sink writes them as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, DataType, DayTimeIntervalType, YearMonthIntervalType

from headgate.connectors.formats.debezium import collapse_changes
from headgate.connectors.formats.leaves import map_leaves, quoted
from headgate.connectors.formats.options import SinkFormat
from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HIDDEN = (TIMESTAMP_COLUMN, OP_COLUMN)


class TextShape:
    """Turns rows into what a text sink stages. Kept by the sink: a plan's schema costs to ask.

    Binary values become base64 and intervals text, at any depth; hidden columns are dropped, but
    for those in `keep`. With debezium_json the rows become changes first.
    """

    def __init__(self, options: SinkFormat, spec: SinkSpec, keep: tuple[str, ...] = ()) -> None:
        self._key = spec.primary_key if options.format == "debezium_json" else None
        self._keep = keep
        # Every micro-batch has the same columns: those of the sink's input.
        self._input_names: list[str] | None = None
        self._chosen: list[str] | None = None

    def apply(self, df: DataFrame) -> DataFrame:
        if self._key is not None:
            if self._input_names is None:
                self._input_names = df.columns
            df = collapse_changes(df, self._input_names, self._key)
        if self._chosen is None:
            self._chosen = _text_columns(df, self._keep)
        return df.selectExpr(*self._chosen) if self._chosen else df


def _text_columns(df: DataFrame, keep: tuple[str, ...]) -> list[str]:
    """Return SQL for the columns to write; empty if they are `df` as it is."""
    changed = False
    chosen = []
    for field in df.schema:
        if field.name in HIDDEN and field.name not in keep:
            changed = True
            continue
        name = quoted(field.name)
        sql = map_leaves(name, field.dataType, text_leaf)
        changed |= sql is not None
        chosen.append(name if sql is None else f"{sql} AS {name}")
    return chosen if changed else []


def text_leaf(expr: str, kind: DataType) -> str | None:
    if isinstance(kind, BinaryType):
        return f"base64({expr})"
    if isinstance(kind, DayTimeIntervalType | YearMonthIntervalType):
        return f"CAST({expr} AS STRING)"
    return None
