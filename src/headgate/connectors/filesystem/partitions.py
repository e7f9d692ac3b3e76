"""Splits batches by the folder that their rows belong to, column-wise."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.formats.text import scalar_text
from headgate.core.errors import InternalError
from headgate.core.graph import TIMESTAMP_COLUMN

# What Hive writes for a missing partition value; Spark reads it back as null.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_rows(
    batch: pa.RecordBatch, fields: tuple[str, ...], time_pattern: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (folder, rows) for every partition in the batch; the folder is "" or ends with "/"."""
    keys = [_text(batch.column(name)) for name in fields]
    if time_pattern is not None:
        if TIMESTAMP_COLUMN not in batch.schema.names:
            raise InternalError("partitioning.time_pattern needs the rows' event time")
        times = batch.column(TIMESTAMP_COLUMN).cast(pa.timestamp("s", "UTC"), safe=False)
        keys.insert(0, pc.strftime(times, format=time_pattern))
    names = [name for name in batch.schema.names if name != TIMESTAMP_COLUMN]
    rows = batch.select(names)
    if not keys:
        yield "", rows
        return
    groups, members = _group(keys)
    for values, indices in zip(groups, members, strict=True):
        yield _folder(values, fields, time_pattern is not None), rows.take(indices)


def _text(values: pa.Array) -> pa.Array:
    text = scalar_text(values)
    return pc.fill_null(text, NULL_PARTITION)


def _group(keys: list[pa.Array]) -> tuple[list[list[str]], list[pa.Array]]:
    """Return the distinct keys, in order of appearance, and the indices of their rows."""
    codes = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        encoded = pc.dictionary_encode(key)
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    members = np.split(order, starts[1:])
    groups = [[key[int(rows[0])].as_py() for key in keys] for rows in members]
    return groups, [pa.array(rows) for rows in members]


def _folder(values: list[str], fields: tuple[str, ...], timed: bool) -> str:
    parts = [values[0].strip("/")] if timed else []
    for name, value in zip(fields, values[1:] if timed else values, strict=True):
        parts.append(f"{quote(name, safe=' ')}={quote(value, safe=' ')}")
    return "/".join(parts) + "/"
