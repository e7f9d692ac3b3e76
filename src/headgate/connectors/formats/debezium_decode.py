"""Lines of changes as signed rows: an update is the retraction of what was, and an insert."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headgate.connectors.base import BAD_COLUMN, BAD_SAMPLE_COLUMN
from headgate.connectors.formats.debezium_values import (
    ColumnHints,
    given_sql,
    read_as,
    value_sql,
)
from headgate.connectors.formats.leaves import (
    any_leaf,
    literal,
    map_leaves,
    quoted,
    struct_of,
    with_leaves,
)
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.formats.rows import CORRUPT, judged, parse_lines
from headgate.core.graph import OP_COLUMN, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A tombstone follows the delete of a key, for whoever compacts the stream: it says nothing new.
_TOMBSTONE = (
    r"^\\s*(null|\\{\\s*\"schema\"\\s*:\\s*null\\s*,\\s*\"payload\"\\s*:\\s*null\\s*\\})\\s*$"
)
# What a message with its schema says of the columns of a row.
_HINT = StructType(
    [
        StructField("field", StringType()),
        StructField("name", StringType()),
        StructField("parameters", MapType(StringType(), StringType())),
    ]
)
_SIDE = StructType([StructField("field", StringType()), StructField("fields", ArrayType(_HINT))])
_SCHEMA = StructType([StructField("fields", ArrayType(_SIDE))])
_SIDES = ("before", "after")
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
) -> DataFrame:
    """Return the rows that changes add (+1) and remove (-1), as the table's columns."""
    row = struct_of(columns)
    parsed = _parsed(spark, lines.where(f"NOT value RLIKE '{_TOMBSTONE}'"), row, options)
    # Values are converted once, and looked at afterwards: the SQL for them is long.
    values = {side: _converted(side, columns, row, options) for side in _SIDES}
    parsed = parsed.selectExpr("*", *(f"{sql} AS _{side}" for side, sql in values.items()))
    tests = [
        f"{CORRUPT} IS NOT NULL",
        "op IS NULL OR op NOT IN ('c', 'r', 'u', 'd')",
        "op IN ('c', 'r', 'u') AND after IS NULL",
        "op IN ('u', 'd') AND before IS NULL",
    ]
    for side in _SIDES:
        for column, field in zip(columns, row, strict=True):
            wrong = _wrong(side, column, field.dataType, options)
            tests += [f"({side} IS NOT NULL AND {test})" for test in wrong]
    decided = judged(
        parsed,
        {"before": "_before", "after": "_after", "op": "op"},
        tests,
        f"coalesce({CORRUPT}, to_json(struct(before, after, op)))",
        table=table,
        options=options,
        reason=_REASON,
    )
    return _signed(decided, columns, options)


def _parsed(
    spark: SparkSession, lines: DataFrame, row: StructType, options: SourceFormat
) -> DataFrame:
    """Return before, after and op of every change, and what its schema says of the columns."""
    read_row = with_leaves(row, read_as)
    change = StructType(
        [
            StructField("before", read_row),
            StructField("after", read_row),
            StructField("op", StringType()),
        ]
    )
    # With a schema in the message the change is wrapped into a payload.
    whole = [*change, StructField("payload", change), StructField("schema", _SCHEMA)]
    parsed = parse_lines(
        spark, lines, StructType([*whole, StructField(CORRUPT, StringType())]), options
    )
    fields = "flatten(transform(filter(schema.fields, f -> f.field = 'after'), f -> f.fields))"
    return (
        parsed.selectExpr(
            *(f"coalesce({name}, payload.{name}) AS {name}" for name in ("before", "after", "op")),
            f"{fields} AS _fields",
            CORRUPT,
        )
        # A message in the log of the database ('m') is no change of the table.
        .where("op IS NULL OR op <> 'm'")
        .selectExpr(
            "before",
            "after",
            "op",
            "map_from_entries(transform(_fields, f -> struct(f.field, f))) AS _hints",
            CORRUPT,
        )
    )


def _converted(
    side: str, columns: tuple[Column, ...], row: StructType, options: SourceFormat
) -> str:
    """Return SQL for the row of a side, with its values as the table has them."""
    values = []
    for column, field in zip(columns, row, strict=True):
        hint = f"_hints[{literal(column.name)}]"
        # What the schema says is looked at for columns that are plain values.
        hints = ColumnHints(options)
        if not isinstance(field.dataType, StructType | ArrayType | MapType):
            scale = f"try_cast({hint}.parameters['scale'] AS INT)"
            hints = ColumnHints(options, f"{hint}.name", scale)
        leaf = partial(value_sql, hints=hints)
        expr = f"{side}.{quoted(column.name)}"
        value = map_leaves(expr, field.dataType, leaf) or expr
        values.append(f"{literal(column.name)}, {value}")
    return f"IF({side} IS NULL, NULL, named_struct({', '.join(values)}))"


def _wrong(side: str, column: Column, kind: DataType, options: SourceFormat) -> list[str]:
    """Return tests that hold if a column is not what the table says."""
    given, read = f"{side}.{quoted(column.name)}", f"_{side}.{quoted(column.name)}"
    tests = [] if column.nullable else [f"{read} IS NULL"]
    if isinstance(kind, StructType | ArrayType | MapType):
        # Rare, and not worth a way to compare two trees: the values are converted again.
        leaf = partial(_unreadable, hints=ColumnHints(options))
        nested = any_leaf(given, kind, leaf)
        return tests if nested is None else [*tests, nested]
    if read_as(kind) != kind:
        tests.append(f"({given_sql(given, kind)} AND {read} IS NULL)")
    return tests


def _unreadable(expr: str, kind: DataType, hints: ColumnHints) -> str | None:
    value = value_sql(expr, kind, hints)
    return None if value is None else f"({given_sql(expr, kind)} AND {value} IS NULL)"


def _signed(changes: DataFrame, columns: tuple[Column, ...], options: SourceFormat) -> DataFrame:
    marks = [BAD_COLUMN, BAD_SAMPLE_COLUMN] if options.bad_data == "drop" else []
    # A bad change has no op; it stays one row.
    return changes.selectExpr(
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
