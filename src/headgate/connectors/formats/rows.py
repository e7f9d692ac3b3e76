"""What the text formats share: lines parsed by Spark, and what becomes of bad rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headgate.connectors.base import (
    BAD_COLUMN,
    BAD_POSITION_COLUMN,
    BAD_RAW_COLUMN,
    BAD_SAMPLE_COLUMN,
)
from headgate.connectors.formats.leaves import literal, quoted
from headgate.connectors.formats.options import SourceFormat
from headgate.core.spark_errors import BAD_DATA_MARK, SAMPLE_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark puts the text of a record that it could not read here.
CORRUPT = "_headgate_corrupt"
# SQL for the text of a parsed record, as it came if that is known.
RECORD = f"coalesce({CORRUPT}, to_json(struct(*)))"
# Enough to find the row again, and mostly all of it.
_SAMPLE_CHARACTERS = 2_000


def judged(
    rows: DataFrame,
    values: dict[str, str],
    tests: list[str],
    record: str,
    *,
    table: str,
    options: SourceFormat,
    place: str | None = None,
) -> DataFrame:
    """Choose `values` (SQL by name); rows for which a test holds fail, or are blanked and marked.

    `record` is SQL for the row's text. It may cost something: only bad rows are asked for it. With
    `place`, SQL for where a row is, bad rows bring their whole text (`value`) and their place.
    """
    bad = " OR ".join(f"({test})" for test in tests)
    chosen = [f"{sql} AS {quoted(name)}" for name, sql in values.items()]
    if options.bad_data == "fail":
        failure = failure_sql(literal(f"not a {options.format} row"), record, table=table)
        # A filter, not a column: a column that nobody reads would be optimized away.
        checked = rows.where(f"CASE WHEN {bad} THEN {failure} ELSE true END")
        return checked.selectExpr(*chosen)
    marked = rows.selectExpr(
        *chosen,
        f"{bad} AS {BAD_COLUMN}",
        f"IF({bad}, {sample_sql(record)}, NULL) AS {BAD_SAMPLE_COLUMN}",
        *([] if place is None else letters_sql(bad, "value", place)),
    )
    return marked.selectExpr(
        *(f"IF({BAD_COLUMN}, NULL, {quoted(name)}) AS {quoted(name)}" for name in values),
        BAD_COLUMN,
        BAD_SAMPLE_COLUMN,
        *([] if place is None else [BAD_RAW_COLUMN, BAD_POSITION_COLUMN]),
    )


def letters_sql(bad: str, raw: str, place: str) -> list[str]:
    """Return what a dead-letter table wants of bad rows."""
    return [
        f"IF({bad}, {raw}, NULL) AS {BAD_RAW_COLUMN}",
        f"IF({bad}, {place}, NULL) AS {BAD_POSITION_COLUMN}",
    ]


def failure_sql(reason: str, record: str, *, table: str) -> str:
    """Return SQL that fails for a bad row. `reason` is SQL for what is wrong with it."""
    mark = literal(f"{BAD_DATA_MARK} table {table}: ")
    return f"raise_error(concat({mark}, {reason}, '{SAMPLE_MARK}', {sample_sql(record)}))"


def sample_sql(record: str) -> str:
    """Return SQL for as much of a bad row's text as is shown."""
    return f"substring({record}, 1, {_SAMPLE_CHARACTERS})"


def parse_lines(
    spark: SparkSession, lines: DataFrame, schema: StructType, options: SourceFormat
) -> DataFrame:
    """Return the fields of lines (a column `value`) that have nothing else."""
    reader = spark.read.schema(schema).options(**_parser(options))
    return reader.csv(lines) if options.format == "csv" else reader.json(lines)


def parse_column(lines: DataFrame, schema: StructType, options: SourceFormat) -> DataFrame:
    """Return the fields of the column `value` in `_parsed`, and all columns as they are.

    Blank lines are left out, as `parse_lines` does.
    """
    if options.format == "csv":
        parsed = F.from_csv("value", schema.toDDL(), _parser(options))
    else:
        parsed = F.from_json("value", schema, _parser(options))
    # The tests of the rows would be pushed below the parser, and every line be parsed for them once
    # more. Spark pushes nothing below what is not deterministic, and a partition's number is not.
    once = F.when(F.spark_partition_id() >= 0, parsed)
    return lines.where("trim(value) <> ''").select("*", once.alias("_parsed"))


def _parser(options: SourceFormat) -> dict[str, str]:
    parser = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"}
    if options.format == "csv":
        # With a null value that nobody writes, an empty field is null and a quoted one is a text.
        parser |= {"nullValue": "\u0000", "emptyValue": "", "header": "false"}
        parser |= {"sep": options.csv_delimiter, "escape": '"'}
    return parser
