"""Lines of text as typed rows, parsed by Spark on the JVM.

Timestamps are read as text first, because people write them in many ways; see `timestamp_sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampNTZType

from headgate.connectors.formats.debezium_decode import decode_changes
from headgate.connectors.formats.leaves import (
    any_leaf,
    is_timestamp,
    literal,
    map_leaves,
    quoted,
    struct_of,
    timestamps_as_text,
)
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.formats.rows import CORRUPT, RECORD, judged, parse_column, parse_lines
from headgate.connectors.lines import NOT_UTF8
from headgate.core.graph import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def decode_lines(
    spark: SparkSession,
    lines: DataFrame,
    *,
    table: str,
    columns: tuple[Column, ...],
    options: SourceFormat,
    carried: dict[str, str] | None = None,
    place: str | None = None,
) -> DataFrame:
    """Return the rows of `lines` (a column `value`) as the table's columns.

    A line that was not UTF-8 is `NOT_UTF8`. Bad rows fail or are marked, as `Source.read` says.
    `carried`: further columns of the rows by name, as SQL over other columns of `lines`: what
    belongs to a line and is not in it. Changes have none. `place`: SQL for where a line is; a
    dead-letter table wants it and the whole text of what is bad, and nobody else pays for them.
    """
    carried = carried or {}
    place = place if options.dead_letters is not None else None
    if options.format == "raw_string" or options.json_unstructured:
        values = {"value": "value"} if columns else {}
        test = f"value <=> {literal(NOT_UTF8)}"
        return judged(
            lines, values | carried, [test], "value", table=table, options=options, place=place
        )
    if options.format == "debezium_json":
        return decode_changes(
            spark, lines, table=table, columns=columns, options=options, place=place
        )
    row = struct_of(columns)
    fields = [*timestamps_as_text(row), StructField(CORRUPT, StringType())]  # type: ignore[misc]
    in_column = bool(carried) or place is not None
    if in_column:
        parsed = parse_column(lines, StructType(fields), options)
    else:
        parsed = parse_lines(spark, lines, StructType(fields), options)
    values = {}
    parsed_as = "_parsed." if in_column else ""
    tests = [f"{parsed_as}{CORRUPT} IS NOT NULL"]
    for column, field in zip(columns, row, strict=True):
        name = f"{parsed_as}{quoted(column.name)}"
        values[column.name] = converted(name, field.dataType)
        tests += checks(name, field.dataType, nullable=column.nullable)
    record = "value" if in_column else RECORD
    return judged(
        parsed, values | carried, tests, record, table=table, options=options, place=place
    )


def timestamp_sql(text: str, kind: DataType) -> str:
    """Return SQL for the timestamp in `text`, null if it is none.

    Milliseconds since 1970 as digits, or a date and time as RFC 3339 with or without a zone; what
    names no zone is UTC. A bare time of day would mean today to Spark: it is none.
    """
    parsed = (
        # A failing cast throws inside, which is slow: so the form is looked at first.
        f"CASE WHEN {text} RLIKE '^-?[0-9]{{1,15}}$' "
        f"THEN timestamp_millis(try_cast({text} AS BIGINT)) "
        f"WHEN {text} RLIKE '^[0-9]{{4,6}}-' THEN try_cast({text} AS TIMESTAMP) END"
    )
    return f"CAST({parsed} AS TIMESTAMP_NTZ)" if isinstance(kind, TimestampNTZType) else parsed


def converted(expr: str, kind: DataType) -> str:
    """Return SQL for the typed value of what was parsed with its timestamps as text."""

    def leaf(inner: str, leaf_kind: DataType) -> str | None:
        return timestamp_sql(inner, leaf_kind) if is_timestamp(leaf_kind) else None

    return map_leaves(expr, kind, leaf) or expr


def checks(expr: str, kind: DataType, *, nullable: bool) -> list[str]:
    """Return SQL tests that are true if the parsed value is not what the column promises."""

    def leaf(inner: str, leaf_kind: DataType) -> str | None:
        if not is_timestamp(leaf_kind):
            return None
        return f"({inner} IS NOT NULL AND {timestamp_sql(inner, leaf_kind)} IS NULL)"

    test = any_leaf(expr, kind, leaf)
    return ([] if test is None else [test]) + ([] if nullable else [f"{expr} IS NULL"])
