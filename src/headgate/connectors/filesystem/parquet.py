"""Parquet files as typed rows: by Spark's vectorised reader if it can, else by PyArrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.connectors.filesystem.position import CutFile
from headgate.connectors.formats.leaves import struct_of
from headgate.core.errors import BadDataError
from headgate.core.graph import Column
from headgate.storage.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_BATCH_ROWS = 65_536


def read_with_spark(
    spark: SparkSession, root: str, files: Sequence[CutFile], columns: tuple[Column, ...]
) -> DataFrame:
    """Read local files on the JVM, only the columns that the query needs.

    Within a micro-batch Spark orders files by size; the order between micro-batches is ours.
    """
    paths = [os.path.join(root, file.path) for file in files]
    return _reader(spark, columns).parquet(*paths)


@lru_cache(maxsize=256)
def _reader(spark: SparkSession, columns: tuple[Column, ...]) -> DataFrameReader:
    # The names are names: a `*` or a `{` in one of them is no pattern.
    return spark.read.schema(struct_of(columns)).option("__globPaths__", "false")


def read_with_arrow(
    spark: SparkSession,
    folder: Folder,
    files: Sequence[CutFile],
    columns: tuple[Column, ...],
    parallelism: int,
) -> DataFrame:
    """Read files of any store in Python tasks, in order."""
    from pyspark.sql.pandas.types import to_arrow_schema

    row = struct_of(columns)
    schema = to_arrow_schema(row, timezone="UTC")
    shares = _shares(files, parallelism)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                for path in shares[share]:
                    yield from _read_file(folder, path, schema)

    return spark.range(0, len(shares), 1, max(1, len(shares))).mapInArrow(read, row)


def _shares(files: Sequence[CutFile], parts: int) -> list[list[str]]:
    """Share files out in order, by bytes."""
    total = sum(file.bytes for file in files)
    shares: list[list[str]] = [[] for _ in range(max(1, min(parts, len(files))))]
    taken = 0
    for file in files:
        shares[min(len(shares) - 1, taken * len(shares) // max(1, total))].append(file.path)
        taken += file.bytes
    return shares


def _read_file(folder: Folder, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    source = pq.ParquetFile(pa.BufferReader(folder.read(path)))
    names = [name for name in schema.names if name in source.schema_arrow.names]
    for batch in source.iter_batches(_BATCH_ROWS, columns=names):
        arrays = [
            _cast(batch.column(names.index(field.name)), field, path)
            if field.name in names
            else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(values: pa.Array, field: pa.Field, path: str) -> pa.Array:
    try:
        if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(field.type):
            # What names no zone is UTC; nanoseconds are cut off.
            zone = values.type.tz or "UTC"
            return values.cast(pa.timestamp(values.type.unit, zone)).cast(field.type, safe=False)
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadDataError(
            f"'{path}': column '{field.name}' is {values.type} in the file, and cannot be read "
            f"as {field.type}: {error}"
        ) from error
