"""What the text formats share: lines parsed by Spark, and what becomes of bad rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from headgate.connectors.base import BAD_COLUMN, BAD_SAMPLE_COLUMN
from headgate.connectors.formats.leaves import literal, quoted
from headgate.connectors.formats.options import SourceFormat
from headgate.core.spark_errors import BAD_DATA_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark puts the text of a record that it could not read here.
CORRUPT = "_headgate_corrupt"
# SQL for the text of a parsed record, as it came if that is known.
RECORD = f"coalesce({CORRUPT}, to_json(struct(*)))"
_SAMPLE_CHARACTERS = 200


def judged(
    rows: DataFrame,
    values: dict[str, str],
    tests: list[str],
    record: str,
    *,
    table: str,
    options: SourceFormat,
    reason: str | None = None,
) -> DataFrame:
    """Choose `values` (SQL by name); rows for which a test holds fail, or are blanked and marked.

    `record` is SQL for the row's text, `reason` for what is wrong with it. They may cost something:
    only bad rows are asked for them.
    """
    bad = " OR ".join(f"({test})" for test in tests)
    sample = f"substring({record}, 1, {_SAMPLE_CHARACTERS})"
    chosen = [f"{sql} AS {quoted(name)}" for name, sql in values.items()]
    if options.bad_data == "fail":
        mark = literal(f"{BAD_DATA_MARK} table {table}: ")
        what = reason or literal(f"not a {options.format} row")
        # A filter, not a column: a column that nobody reads would be optimized away.
        checked = rows.where(
            f"CASE WHEN {bad} THEN raise_error(concat({mark}, {what}, ': ', {sample})) "
            "ELSE true END"
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


def parse_lines(
    spark: SparkSession, lines: DataFrame, schema: StructType, options: SourceFormat
) -> DataFrame:
    reader = spark.read.schema(schema).options(
        mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, timeZone="UTC"
    )
    if options.format == "csv":
        # With a null value that nobody writes, an empty field is null and a quoted one is a text.
        marked = reader.options(nullValue="\u0000", emptyValue="")
        return marked.options(header=False, sep=options.csv_delimiter, escape='"').csv(lines)
    return reader.json(lines)
