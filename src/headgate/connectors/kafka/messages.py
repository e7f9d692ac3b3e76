"""Rows as messages: shaped on the JVM, encoded in the sink's tasks, staged as Arrow files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType

from headgate.connectors.base import StageWriter
from headgate.connectors.formats.encode import TextEncoder
from headgate.connectors.formats.json_encode import SLICE_ROWS
from headgate.connectors.formats.leaves import quoted
from headgate.connectors.formats.prepare import TextShape
from headgate.connectors.kafka.config import KafkaSinkOptions
from headgate.core.checkpoint import StagedFile
from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY, TIME, HEADERS = "_kafka_key", "_kafka_time", "_kafka_headers"
# A staged file is read into memory as a whole.
STAGED_BYTES_MAX = 16 << 20
_SUFFIX = ".arrow"


class MessageShape:
    """Gives every row its key, its time and its headers, as SQL. Kept: a schema costs to ask."""

    def __init__(self, options: KafkaSinkOptions, spec: SinkSpec) -> None:
        self._options = options
        self._spec = spec
        self._text = TextShape(options, spec, keep=(TIMESTAMP_COLUMN,))
        self._chosen: list[str] | None = None

    def apply(self, df: DataFrame) -> DataFrame:
        shaped = df if self._options.format == "raw_bytes" else self._text.apply(df)
        if self._chosen is None:
            self._chosen = self._columns(df, shaped)
        return shaped.selectExpr(*self._chosen)

    def _columns(self, given: DataFrame, shaped: DataFrame) -> list[str]:
        options = self._options
        kinds = {f.name: f.dataType for f in given.schema}
        left_out = {options.headers_field, TIMESTAMP_COLUMN, "_op"}
        values = [quoted(name) for name in shaped.columns if name not in left_out]
        key = self._key_sql(kinds)
        time = self._time_sql(shaped.columns)
        headers = self._of_row(options.headers_field) if options.headers_field else "NULL"
        return [
            *values,
            f"{key} AS {KEY}",
            f"{time} AS {TIME}",
            f"CAST({headers} AS MAP<STRING, STRING>) AS {HEADERS}",
        ]

    def _key_sql(self, kinds: dict[str, Any]) -> str:
        name = self._options.key_field
        if name is not None:
            of_row = self._of_row(name)
            if isinstance(kinds[name], BinaryType):
                # The shape of text has made base64 of it.
                raw = self._options.format == "raw_bytes"
                return of_row if raw else f"unbase64({of_row})"
            return f"CAST(CAST({of_row} AS STRING) AS BINARY)"
        keys = [n for n in self._spec.primary_key if n in kinds]
        if not keys:
            return "CAST(NULL AS BINARY)"
        fields = ", ".join(f"'{n}', {self._of_row(n)}" for n in keys)
        return f"CAST(to_json(named_struct({fields})) AS BINARY)"

    def _time_sql(self, names: Sequence[str]) -> str:
        name = self._options.timestamp_field
        if name is not None:
            return f"unix_millis({self._of_row(name)})"
        if TIMESTAMP_COLUMN in names:
            return f"unix_millis({TIMESTAMP_COLUMN})"
        return "CAST(NULL AS BIGINT)"

    def _of_row(self, name: str) -> str:
        """Return SQL for a column; of a change, the one that the row has now, or had."""
        if self._options.format == "debezium_json":
            return f"coalesce(after.{quoted(name)}, before.{quoted(name)})"
        return quoted(name)


def stage_messages(
    batches: Iterator[pa.RecordBatch],
    options: KafkaSinkOptions,
    encoder: TextEncoder,
    writer: StageWriter,
) -> list[StagedFile]:
    """Stage the rows as messages, in files that are not too large to be read at once."""
    staged: list[StagedFile] = []
    pieces: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for at in range(0, batch.num_rows, SLICE_ROWS):
            piece = _encoded(batch.slice(at, SLICE_ROWS), options, encoder)
            pieces.append(piece)
            size += piece.nbytes
            if size >= STAGED_BYTES_MAX:
                staged.append(_write(pieces, writer))
                pieces, size = [], 0
    if pieces:
        staged.append(_write(pieces, writer))
    return staged


def _encoded(
    rows: pa.RecordBatch, options: KafkaSinkOptions, encoder: TextEncoder
) -> pa.RecordBatch:
    names = [n for n in rows.schema.names if n not in (KEY, TIME, HEADERS)]
    values = rows.select(names)
    if options.format == "raw_bytes":
        value = values.column(0)
    else:
        value = pc.cast(encoder.texts(values), pa.binary())
    columns = {"value": value, "key": rows.column(KEY), "timestamp": rows.column(TIME)}
    if options.headers_field is not None:
        columns["headers"] = rows.column(HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def _write(pieces: Sequence[pa.RecordBatch], writer: StageWriter) -> StagedFile:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, pieces[0].schema, options=options) as file:
        for piece in pieces:
            file.write_batch(piece)
    size = sum(piece.nbytes for piece in pieces)
    rows = sum(piece.num_rows for piece in pieces)
    return writer.write(_SUFFIX, sink.getvalue(), rows, {"bytes": size})


@dataclass(frozen=True)
class Messages:
    """Messages as columns; None = none of them has one."""

    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    # Milliseconds since 1970; 0 = now.
    times: list[int] | None = None
    headers: list[list[tuple[str, str]]] | None = None


def staged_messages(data: bytes) -> Iterator[Messages]:
    """Return the messages of a staged file, in order."""
    with pa.ipc.open_file(pa.BufferReader(data)) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            given = {name: _values(batch, name) for name in ("key", "timestamp", "headers")}
            yield Messages(
                batch.column("value").to_pylist(),
                given["key"],
                given["timestamp"],
                given["headers"],
            )


def _values(batch: pa.RecordBatch, name: str) -> list[Any] | None:
    if name not in batch.schema.names or batch.column(name).null_count == len(batch):
        return None
    column = batch.column(name)
    if name == "timestamp":
        # The brokers take no time before 1970.
        return list(pc.max_element_wise(pc.fill_null(column, 0), 0).to_pylist())
    if name == "headers":
        return [list(headers) if headers else [] for headers in column.to_pylist()]
    return list(column.to_pylist())
