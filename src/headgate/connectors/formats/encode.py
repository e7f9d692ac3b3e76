"""Arrow batches as the bytes of a file, in any of the text formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.formats.json_encode import (
    SLICE_ROWS,
    JsonStyle,
    json_lines,
    json_objects,
    json_text,
    raw_json,
)
from headgate.connectors.formats.options import SinkFormat
from headgate.connectors.formats.text import buffer_of, joined, scalar_text
from headgate.core.graph import Column

SUFFIXES = {
    "json": ".json",
    "debezium_json": ".json",
    "csv": ".csv",
    "raw_string": ".txt",
    "parquet": ".parquet",
}


class TextEncoder:
    """Turns batches into lines. Made from the options; holds nothing between batches."""

    def __init__(self, options: SinkFormat, columns: Sequence[Column]) -> None:
        self._options = options
        self._style = JsonStyle(
            timestamps_as_millis=options.timestamps_as_millis,
            decimals_as_text=options.json_decimal_encoding == "string",
            raw_columns=frozenset(c.name for c in columns if c.type == "json"),
        )

    def lines(self, batch: pa.RecordBatch) -> list[pa.Buffer]:
        """Return the lines of the batch, each ended by a newline, in pieces."""
        if self._options.format == "csv":
            return self._csv(batch)
        if self._options.format == "raw_string":
            return [buffer_of(joined(pc.fill_null(batch.column(0), ""), "\n"))]
        if self._options.json_unstructured:
            return [buffer_of(joined(raw_json(batch.column(0)), "\n"))]
        return json_lines(batch, self._style)

    def texts(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the text of every row, without a newline. At most `SLICE_ROWS` rows."""
        if self._options.format == "csv":
            return self._csv_fields([self._csv_text(column) for column in rows.columns])
        if self._options.format == "raw_string":
            return rows.column(0)
        if self._options.json_unstructured:
            return raw_json(rows.column(0))
        return json_objects(rows, self._style)

    def header(self, names: Sequence[str]) -> bytes:
        """Return what stands before the first line of a file."""
        if self._options.format != "csv" or not self._options.csv_header:
            return b""
        row = self._csv_fields([pa.array([name]) for name in names])
        return bytes(buffer_of(joined(row, "\n")))

    def _csv(self, batch: pa.RecordBatch) -> list[pa.Buffer]:
        pieces = []
        for start in range(0, batch.num_rows, SLICE_ROWS):
            pieces.append(buffer_of(joined(self.texts(batch.slice(start, SLICE_ROWS)), "\n")))
        return pieces

    def _csv_text(self, values: pa.Array) -> pa.Array:
        if pa.types.is_nested(values.type):
            nested = json_text(values, self._style)
            return pc.if_else(pc.is_valid(values), nested, pa.scalar(None, pa.string()))
        return scalar_text(values, timestamps_as_millis=self._style.timestamps_as_millis)

    def _csv_fields(self, texts: Iterable[pa.Array]) -> pa.Array:
        delimiter = self._options.csv_delimiter
        fields: list[pa.Array | str] = []
        for text in texts:
            # Nothing is an empty field; an empty text is a quoted one.
            needs = pc.or_(
                pc.match_substring_regex(text, '[\\r\\n"]'),
                pc.or_(pc.match_substring(text, delimiter), pc.equal(text, "")),
            )
            inside = pc.replace_substring(text, '"', '""')
            shown = pc.if_else(needs, joined('"', inside, '"'), text)
            fields += [pc.fill_null(shown, ""), delimiter]
        return joined(*fields[:-1])
