"""The options that say how rows look outside. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from headgate.connectors.options import Bytes, ConnectorOptions
from headgate.core.errors import UserError
from headgate.core.graph import Column

TimestampFormat = Annotated[
    Literal["rfc3339", "unix_millis"],
    BeforeValidator(lambda v: {"RFC3339": "rfc3339", "UnixMillis": "unix_millis"}.get(v, v)),
]


class FormatOptions(ConnectorOptions):
    """What sources and sinks of rows in files have in common."""

    synonyms: ClassVar = {"parquet_compression": "parquet.compression"}

    format: Literal["json", "debezium_json", "csv", "raw_string"] = Field(
        "json", description="how a row is written"
    )
    framing: Literal["newline"] | None = Field(
        None, description="rows in text files are lines: the only framing there is"
    )
    json_unstructured: bool = Field(
        False, alias="json.unstructured", description="the whole line in one column `value TEXT`"
    )
    csv_header: bool = Field(
        True, alias="csv.header", description="the first line of a file names the columns"
    )
    csv_delimiter: str = Field(
        ",",
        alias="csv.delimiter",
        min_length=1,
        max_length=1,
        description="what stands between two values",
    )

    @property
    def updating(self) -> bool:
        """Whether the rows are changes and not facts."""
        return self.format == "debezium_json"

    @property
    def by_position(self) -> bool:
        return self.format == "csv"

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        """A format without fields fills one text column, `value`."""
        if not (self.format == "raw_string" or self.json_unstructured) or not columns:
            return
        if [(c.name, c.type) for c in columns] != [("value", "string")]:
            what = "json.unstructured" if self.json_unstructured else "format = 'raw_string'"
            raise UserError(
                f"a table with {what} has exactly one column, `value TEXT`", code="options"
            )


class SourceFormat(FormatOptions):
    """How a source reads rows."""

    bad_data: str = Field(
        "fail",
        min_length=1,
        description="what becomes of a row that cannot be read: 'fail' stops the pipeline, 'drop' "
        "leaves it out, the name of a sink table keeps it there",
    )
    # None = not said, and not part of the normalized options.
    debezium_time_unit: Literal["milliseconds", "microseconds", "nanoseconds"] | None = Field(
        None,
        alias="debezium.time_unit",
        description="of numbers in TIMESTAMP columns; absent = by the schema, else by magnitude",
    )
    debezium_decimals: Literal["base64", "text"] | None = Field(
        None,
        alias="debezium.decimals",
        description="what texts in DECIMAL columns are; absent = by the schema, else by their form",
    )

    @property
    def dead_letters(self) -> str | None:
        """The sink table that takes what cannot be read."""
        return None if self.bad_data in ("fail", "drop") else self.bad_data


class SinkFormat(FormatOptions):
    """How a sink writes rows."""

    json_timestamp_format: TimestampFormat | None = Field(
        None,
        alias="json.timestamp_format",
        description="absent = text in json, milliseconds in debezium_json",
    )
    json_decimal_encoding: Literal["number", "string"] = Field(
        "number", alias="json.decimal_encoding", description="how a DECIMAL is written"
    )

    @property
    def timestamps_as_millis(self) -> bool:
        if self.json_timestamp_format is None:
            return self.format == "debezium_json"
        return self.json_timestamp_format == "unix_millis"


class ParquetOptions(ConnectorOptions):
    """How Parquet files are written."""

    parquet_compression: Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"] = Field(
        "zstd", alias="parquet.compression", description="how the columns of a file are compressed"
    )
    parquet_row_group_size: Bytes = Field(
        64_000_000,
        alias="parquet.row_group_size",
        gt=0,
        description="of rows in memory, before compression",
    )
