"""Is a result right? Compared, row by row, with a batch computation by Arrow over the same files.

Arrow has no part in the engines under test, so that a shared mistake is unlikely. The expected
tables are kept beside the data: they depend on nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

WIDTH_US = 10_000_000
WATERMARK_DELAY_US = 5_000_000

WINDOW_COLUMNS = ("auction", "start", "bids", "highest")
KEYED_COLUMNS = ("item", "bids")

EXACT = "exact"


def expected_window(folder: Path) -> pa.Table:
    """Return (auction, start, bids, highest) of every window, sorted."""
    return _cached(folder, "window")


def expected_keyed(folder: Path) -> pa.Table:
    """Return (item, bids), sorted."""
    return _cached(folder, "keyed")


def _cached(folder: Path, query: str) -> pa.Table:
    path = folder.parent / f"expected-{query}.parquet"
    if not path.exists():
        answer = _windows(folder) if query == "window" else _keys(folder)
        temporary = path.with_suffix(".tmp")
        pq.write_table(answer, temporary)
        temporary.replace(path)
    return pq.read_table(path)


def _windows(folder: Path) -> pa.Table:
    # Files are reduced one by one and the partial answers joined: memory stays small.
    parts = []
    for rows in _read(folder, ["auction", "price", "ts"]):
        times = rows["ts"].cast(pa.int64()).to_numpy()
        binned = rows.append_column("start", pa.array(times - times % WIDTH_US))
        parts.append(
            binned.group_by(["auction", "start"]).aggregate([("price", "count"), ("price", "max")])
        )
    joined = pa.concat_tables(parts).group_by(["auction", "start"])
    merged = joined.aggregate([("price_count", "sum"), ("price_max", "max")])
    merged = merged.select(["auction", "start", "price_count_sum", "price_max_max"])
    return ordered(merged.rename_columns(list(WINDOW_COLUMNS)), "window")


def _keys(folder: Path) -> pa.Table:
    items = pa.concat_tables(_read(folder, ["item"]))
    counted = items.group_by("item").aggregate([([], "count_all")])
    return ordered(
        counted.select(["item", "count_all"]).rename_columns(list(KEYED_COLUMNS)), "keyed"
    )


def _read(folder: Path, columns: list[str]) -> list[pa.Table]:
    tables = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            tables.append(pq.read_table(path, columns=columns))
        else:
            tables.append(_read_json(path).select(columns))
    return tables


def _read_json(path: Path) -> pa.Table:
    from bench.data import SCHEMA

    fields = [pa.field("ts", pa.string()) if f.name == "ts" else f for f in SCHEMA]
    rows = pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=pa.schema(fields)))
    text = pc.replace_substring(rows["ts"], "Z", "")
    times = text.cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
    return rows.set_column(rows.schema.get_field_index("ts"), "ts", times)


def ordered(rows: pa.Table, query: str) -> pa.Table:
    """Bring columns and rows into the order in which answers are compared."""
    names = WINDOW_COLUMNS if query == "window" else KEYED_COLUMNS
    keys = names[:2] if query == "window" else names[:1]
    plain = rows.select(list(names)).cast(pa.schema([(name, pa.int64()) for name in names]))
    return plain.combine_chunks().sort_by([(key, "ascending") for key in keys])


def compare(found: pa.Table, expected: pa.Table) -> str:
    """Return "exact", or the first difference."""
    if found.num_rows != expected.num_rows:
        return f"wrong: {found.num_rows} rows where {expected.num_rows} are right"
    for name in expected.column_names:
        differs = np.flatnonzero(
            pc.not_equal(found[name], expected[name]).to_numpy(zero_copy_only=False)
        )
        if len(differs):
            row = int(differs[0])
            got, right = found.slice(row, 1).to_pylist(), expected.slice(row, 1).to_pylist()
            return f"wrong: {len(differs)} rows differ in {name}, the first is {got}, not {right}"
    return EXACT


def closed_by(expected: pa.Table, watermark_us: int) -> pa.Table:
    """Return the windows that a watermark closes: a query that just stops never emits the rest."""
    ends = pc.add(expected["start"], WIDTH_US)
    return expected.filter(pc.less_equal(ends, watermark_us))


def read_parquet_output(folder: Path) -> pa.Table:
    """Read what a sink published, `start` as microseconds."""
    return read_parquet_files(parquet_files(folder))


def parquet_files(folder: Path) -> list[Path]:
    """Return the files that a sink has published, without those that are being written."""
    return [p for p in sorted(folder.rglob("*.parquet")) if not p.name.startswith(".")]


def read_parquet_files(files: list[Path]) -> pa.Table:
    """Read these files, `start` as microseconds."""
    rows = pa.concat_tables([pq.read_table(path, partitioning=None) for path in files])
    return _start_in_microseconds(rows)


def read_json_output(folder: Path) -> pa.Table:
    """Read a sink's JSON lines, `start` as microseconds."""
    rows = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size):
        rows += [json.loads(line) for line in path.read_text().splitlines()]
    return pa.Table.from_pylist(rows)


def _start_in_microseconds(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("start")
    column = rows.column(place)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return rows.set_column(place, "start", column)
