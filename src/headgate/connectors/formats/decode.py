"""Lines of text as typed rows, parsed by Spark on the JVM.

Timestamps are read as text first, because people write them in many ways; see `timestamp_sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampNTZType

from headgate.connectors.base import BAD_COLUMN, BAD_SAMPLE_COLUMN
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
from headgate.connectors.lines import NOT_UTF8
from headgate.core.graph import OP_COLUMN, Column
from headgate.core.spark_errors import BAD_DATA_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark puts the text of a record that it could not read here.
_CORRUPT = "_headgate_corrupt"
# SQL for the text of a parsed record, as it came where that is known.
_RECORD = f"coalesce({_CORRUPT}, to_json(struct(*)))"
_SAMPLE_CHARACTERS = 200


def decode_lines(
    spark: SparkSession,
    lines: DataFrame,
    *,
    table: str,
    columns: tuple[Column, ...],
    options: SourceFormat,
) -> DataFrame:
    """Return the rows of `lines` (one column `value`) as the table's columns.

    A line that was not UTF-8 is `NOT_UTF8`. Bad rows fail or are marked, as `Source.read` says.
    """
    if options.format == "raw_string" or options.json_unstructured:
        test = f"value = {literal(NOT_UTF8)}"
        return _judged(lines, {"value": "value"}, [test], "value", table=table, options=options)
    if options.format == "debezium_json":
        return _decode_debezium(spark, lines, table=table, columns=columns, options=options)
    row = struct_of(columns)
    fields = [*timestamps_as_text(row), StructField(_CORRUPT, StringType())]  # type: ignore[misc]
    parsed = _parse(spark, lines, StructType(fields), options)
    values: dict[str, str] = {}
    tests = [f"{_CORRUPT} IS NOT NULL"]
    for column, field in zip(columns, row, strict=True):
        name = quoted(column.name)
        values[column.name] = converted(name, field.dataType)
        tests += checks(name, field.dataType, nullable=column.nullable)
    return _judged(parsed, values, tests, _RECORD, table=table, options=options)


def _judged(
    rows: DataFrame,
    values: dict[str, str],
    tests: list[str],
    record: str,
    *,
    table: str,
    options: SourceFormat,
) -> DataFrame:
    """Choose `values` (SQL by name); rows for which a test holds fail, or are blanked and marked.

    `record` is SQL for the row's text. It may cost something: only bad rows are asked for it.
    """
    bad = " OR ".join(f"({test})" for test in tests)
    sample = f"substring({record}, 1, {_SAMPLE_CHARACTERS})"
    chosen = [f"{sql} AS {quoted(name)}" for name, sql in values.items()]
    if options.bad_data == "fail":
        message = literal(f"{BAD_DATA_MARK} table {table}: not a {options.format} row: ")
        # A filter, not a column: a column that nobody reads would be optimized away.
        checked = rows.where(
            f"CASE WHEN {bad} THEN raise_error(concat({message}, {sample})) ELSE true END"
        )
        return checked.selectExpr(*chosen)
    marked = rows.selectExpr(
        *chosen, f"{bad} AS {BAD_COLUMN}", f"IF({bad}, {sample}, NULL) AS {BAD_SAMPLE_COLUMN}"
    )
    return marked.selectExpr(
        *(f"IF({BAD_COLUMN}, NULL, {quoted(name)}) AS {quoted(name)}" for name in values),
        BAD_COLUMN,
        BAD_SAMPLE_COLUMN,
    )


def _parse(
    spark: SparkSession, lines: DataFrame, schema: StructType, options: SourceFormat
) -> DataFrame:
    reader = spark.read.schema(schema).options(
        mode="PERMISSIVE", columnNameOfCorruptRecord=_CORRUPT, timeZone="UTC"
    )
    if options.format == "csv":
        # With a null value that nobody writes, an empty field is null and a quoted one is a text.
        marked = reader.options(nullValue="\u0000", emptyValue="")
        return marked.options(header=False, sep=options.csv_delimiter, escape='"').csv(lines)
    return reader.json(lines)


def timestamp_sql(text: str, kind: DataType) -> str:
    """Return SQL for the timestamp in `text`, null where it is none.

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
    """Return SQL tests that are true where the parsed value is not what the column promises."""

    def leaf(inner: str, leaf_kind: DataType) -> str | None:
        if not is_timestamp(leaf_kind):
            return None
        return f"({inner} IS NOT NULL AND {timestamp_sql(inner, leaf_kind)} IS NULL)"

    test = any_leaf(expr, kind, leaf)
    return ([] if test is None else [test]) + ([] if nullable else [f"{expr} IS NULL"])


def _decode_debezium(
    spark: SparkSession,
    lines: DataFrame,
    *,
    table: str,
    columns: tuple[Column, ...],
    options: SourceFormat,
) -> DataFrame:
    """Unroll changes: an update is the retraction of what was and the insert of what is."""
    row = struct_of(columns)
    text_row = timestamps_as_text(row)
    change = StructType(
        [
            StructField("before", text_row),
            StructField("after", text_row),
            StructField("op", StringType()),
        ]
    )
    # With a schema in the message the change is wrapped into a payload.
    schema = StructType(
        [*change, StructField("payload", change), StructField(_CORRUPT, StringType())]
    )
    parsed = _parse(spark, lines, schema, options).selectExpr(
        *(f"coalesce({name}, payload.{name}) AS {name}" for name in ("before", "after", "op")),
        _CORRUPT,
    )
    tests = [
        f"{_CORRUPT} IS NOT NULL",
        "op IS NULL OR op NOT IN ('c', 'r', 'u', 'd')",
        "op IN ('c', 'r', 'u') AND after IS NULL",
        "op IN ('u', 'd') AND before IS NULL",
    ]
    for side in ("before", "after"):
        for column, field in zip(columns, row, strict=True):
            inner = checks(
                f"{side}.{quoted(column.name)}", field.dataType, nullable=column.nullable
            )
            tests += [f"({side} IS NOT NULL AND {test})" for test in inner]
    judged = _judged(
        parsed,
        {"before": converted("before", row), "after": converted("after", row), "op": "op"},
        tests,
        _RECORD,
        table=table,
        options=options,
    )
    marks = [BAD_COLUMN, BAD_SAMPLE_COLUMN] if options.bad_data == "drop" else []
    # A bad change has no op; it stays one row.
    return judged.selectExpr(
        "explode(CASE op WHEN 'u' THEN array(named_struct('op', -1, 'row', before),"
        " named_struct('op', 1, 'row', after))"
        " WHEN 'd' THEN array(named_struct('op', -1, 'row', before))"
        " ELSE array(named_struct('op', 1, 'row', after)) END) AS change",
        *marks,
    ).selectExpr(
        *(f"change.row.{quoted(c.name)} AS {quoted(c.name)}" for c in columns),
        f"change.op AS {OP_COLUMN}",
        *marks,
    )
