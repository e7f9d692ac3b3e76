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

    format: Literal["json", "debezium_json", "csv", "raw_string"] = "json"
    # Rows in text files are lines: the only framing there is.
    framing: Literal["newline"] | None = None
    json_unstructured: bool = Field(False, alias="json.unstructured")
    csv_header: bool = Field(True, alias="csv.header")
    csv_delimiter: str = Field(",", alias="csv.delimiter", min_length=1, max_length=1)

    @property
    def updating(self) -> bool:
        """Whether the rows are changes and not facts."""
        return self.format == "debezium_json"

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

    # What happens to a row that cannot be read.
    bad_data: Literal["fail", "drop"] = "fail"


class SinkFormat(FormatOptions):
    """How a sink writes rows."""

    # None = the format's own: text in json, milliseconds in debezium_json.
    json_timestamp_format: TimestampFormat | None = Field(None, alias="json.timestamp_format")
    json_decimal_encoding: Literal["number", "string"] = Field(
        "number", alias="json.decimal_encoding"
    )

    @property
    def timestamps_as_millis(self) -> bool:
        if self.json_timestamp_format is None:
            return self.format == "debezium_json"
        return self.json_timestamp_format == "unix_millis"


class ParquetOptions(ConnectorOptions):
    """How Parquet files are written."""

    parquet_compression: Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"] = Field(
        "zstd", alias="parquet.compression"
    )
    parquet_row_group_size: Bytes = Field(64_000_000, alias="parquet.row_group_size", gt=0)
