"""Lines of changes as signed rows: an update is the retraction of what was, and an insert.

The plan is built anew for every micro-batch, so its size counts. Both rows of a change go through
one lambda, and only the columns that need it are converted. What is wrong is found in the
generator: Catalyst would repeat the conversions in a filter that it moves below them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headgate.connectors.base import BAD_COLUMN, BAD_SAMPLE_COLUMN
from headgate.connectors.formats.debezium_values import (
    HINT,
    HINT_SQL,
    ColumnHints,
    given_sql,
    read_as,
    uses_hints,
    value_sql,
)
from headgate.connectors.formats.leaves import (
    any_leaf,
    is_timestamp,
    literal,
    map_leaves,
    quoted,
    struct_of,
    with_leaves,
)
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.formats.rows import (
    CORRUPT,
    failure_sql,
    letters_sql,
    parse_column,
    parse_lines,
    sample_sql,
)
from headgate.connectors.lines import PLACE_COLUMN
from headgate.core.graph import OP_COLUMN, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A tombstone follows the delete of a key, for whoever compacts the stream: it says nothing new. It
# is short, so most lines need no more than their length to be told from it.
_TOMBSTONE = (
    "octet_length(value) < 100 AND value RLIKE "
    r"'^\\s*(null|\\{\\s*\"schema\"\\s*:\\s*null\\s*,\\s*\"payload\"\\s*:\\s*null\\s*\\})\\s*$'"
)
_RECORD = f"coalesce({CORRUPT}, to_json(struct(before, after, op)))"
# What a message with its schema says of the columns of a row.
_SIDE = StructType([StructField("field", StringType()), StructField("fields", ArrayType(HINT))])
_SCHEMA = StructType([StructField("fields", ArrayType(_SIDE))])
_HINTS = (
    "map_from_entries(transform("
    "get(filter(schema.fields, f -> f.field = 'after'), 0).fields, "
    f"f -> struct(f.field, {HINT_SQL}))) AS _hints"
)
_SIDES = (
    "CASE WHEN op = 'u' THEN array(before, after) WHEN op = 'd' THEN array(before) "
    "WHEN op IN ('c', 'r') THEN array(after) END"
)
_SIGNS = "CASE WHEN op = 'u' THEN array(-1, 1) WHEN op = 'd' THEN array(-1) ELSE array(1) END"
# Java leaves methods of more than 8,000 bytes uncompiled, and the code for so many is below it.
_COMPILED_MAX = 3
_REASON = """CASE
 WHEN op = 't' THEN 'a truncate: the rows that it removes are not in the stream'
 WHEN op IN ('u', 'd') AND before IS NULL THEN 'a change without the row that was there before
 (Postgres: REPLICA IDENTITY FULL, MySQL: binlog_row_image = FULL)'
 ELSE 'not a debezium_json row' END""".replace("\n", "")


def decode_changes(
    spark: SparkSession,
    lines: DataFrame,
    *,
    table: str,
    columns: tuple[Column, ...],
    options: SourceFormat,
    place: str | None = None,
) -> DataFrame:
    """Return the rows that changes add (+1) and remove (-1), as the table's columns."""
    row = struct_of(columns)
    read = {
        field.name: sql
        for field in row
        if (sql := _read_sql(f"s.{quoted(field.name)}", field, options)) is not None
    }
    tests = ["r.given IS NULL"]
    for column, field in zip(columns, row, strict=True):
        tests += _wrong(column, field.dataType, options, is_read=column.name in read)
    bad = (
        failure_sql(_REASON, _RECORD, table=table) if options.bad_data == "fail" else "array(NULL)"
    )
    hinted = any(uses_hints(f, options) for f in row)
    changes = _changes(spark, lines, row, options, hinted=hinted, place=place)
    letters = [] if place is None else ["value", PLACE_COLUMN]
    passed = ["before", "after", "op", CORRUPT, *letters]
    signed = changes.selectExpr(*passed, f"{_each_side(read, row)} AS _rows").selectExpr(
        # A message in the log of the database ('m') is no change of the table. A bad change that is
        # left out stays one row, which is null.
        f"explode(CASE WHEN {CORRUPT} IS NULL AND NOT exists(_rows, r -> {' OR '.join(tests)}) "
        f"THEN _rows WHEN op = 'm' THEN NULL ELSE {bad} END) AS r",
        *(passed if options.bad_data != "fail" else []),
    )
    names = [
        f"r.{'read' if c.name in read else 'given'}.{quoted(c.name)} AS {quoted(c.name)}"
        for c in columns
    ]
    if options.bad_data == "fail":
        return signed.selectExpr(*names, f"r.op AS {OP_COLUMN}")
    return signed.selectExpr(
        *names,
        f"coalesce(r.op, 1) AS {OP_COLUMN}",
        f"r IS NULL AS {BAD_COLUMN}",
        f"IF(r IS NULL, {sample_sql(_RECORD)}, NULL) AS {BAD_SAMPLE_COLUMN}",
        *(letters_sql("r IS NULL", *letters) if letters else []),
    )


def _changes(
    spark: SparkSession,
    lines: DataFrame,
    row: StructType,
    options: SourceFormat,
    *,
    hinted: bool,
    place: str | None,
) -> DataFrame:
    """Return before, after and op of every change, and what its schema says of the columns."""
    read_row = with_leaves(row, read_as)
    change = [
        StructField("before", read_row),
        StructField("after", read_row),
        StructField("op", StringType()),
    ]
    # With a schema in the message the change is wrapped into a payload.
    message = [*change, StructField("payload", StructType(change))]
    if hinted:
        message.append(StructField("schema", _SCHEMA))
    message.append(StructField(CORRUPT, StringType()))
    lines = lines.where(f"NOT ({_TOMBSTONE})")
    passed: list[str] = []
    if place is None:
        parsed = parse_lines(spark, lines, StructType(message), options)
    else:
        passed = ["value", PLACE_COLUMN]
        parsed = parse_column(
            lines.selectExpr("value", f"{place} AS {PLACE_COLUMN}"), StructType(message), options
        ).select("_parsed.*", *passed)
    return parsed.selectExpr(
        *(f"coalesce({name}, payload.{name}) AS {name}" for name in ("before", "after", "op")),
        CORRUPT,
        *([_HINTS] if hinted else []),
        *passed,
    )


def _read_sql(expr: str, field: StructField, options: SourceFormat) -> str | None:
    """Return SQL for the values of a column as the table has them; None if they are so already."""
    # What the schema says is looked at for columns that are plain values.
    said = f"_hints[{literal(field.name)}]" if uses_hints(field, options) else None
    return map_leaves(expr, field.dataType, partial(value_sql, hints=ColumnHints(options, said)))


def _each_side(read: dict[str, str], row: StructType) -> str:
    """Return SQL for the rows of a change: their signs, what was given, and the columns read of it.

    Spark generates code for `transform`, and evaluates `zip_with` without.
    """
    values = ", ".join(f"{literal(name)}, {sql}" for name, sql in read.items())
    struct = f"'given', s, 'read', named_struct({values})" if read else "'given', s"
    short = all(
        is_timestamp(f.dataType) or isinstance(f.dataType, DateType) for f in row if f.name in read
    )
    if short and len(read) <= _COMPILED_MAX:
        sign = "IF(op = 'd' OR (op = 'u' AND i = 0), -1, 1)"
        return f"transform({_SIDES}, (s, i) -> named_struct('op', {sign}, {struct}))"
    return f"zip_with({_SIDES}, {_SIGNS}, (s, sign) -> named_struct('op', sign, {struct}))"


def _wrong(column: Column, kind: DataType, options: SourceFormat, *, is_read: bool) -> list[str]:
    """Return tests that hold for a row if a column is not what the table says."""
    given = f"r.given.{quoted(column.name)}"
    read = f"r.read.{quoted(column.name)}" if is_read else given
    tests = [] if column.nullable else [f"{read} IS NULL"]
    if isinstance(kind, StructType | ArrayType | MapType):
        # Rare, and not worth a way to compare two trees: the values are converted again.
        nested = any_leaf(given, kind, partial(_unreadable, hints=ColumnHints(options)))
        return tests if nested is None else [*tests, nested]
    return [*tests, f"({read} IS NULL AND {given_sql(given, kind)})"] if is_read else tests


def _unreadable(expr: str, kind: DataType, hints: ColumnHints) -> str | None:
    value = value_sql(expr, kind, hints)
    return None if value is None else f"({given_sql(expr, kind)} AND {value} IS NULL)"
