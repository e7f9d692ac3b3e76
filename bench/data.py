"""The bids: the same rows, in the same files, for every system.

Row number i decides everything about a bid, so the files of a set are independent of each other
and of the machine. Event time advances by 100 microseconds per row (10,000 events per second);
each row is up to two seconds older than its place says, which is less than the watermark's delay
of five seconds, so that no system may drop a row as late.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# Part of every folder's name: a changed generator never reads the files of an older one.
GENERATOR_VERSION = 1
DEFAULT_FOLDER = Path("/tmp/headgate-bench")

START_US = 1_700_000_000_000_000
MICROSECONDS_PER_ROW = 100
DISORDER_US = 2_000_000
AUCTIONS = 1_000
BIDDERS = 100_000
CHANNELS = ("web", "ios", "android", "partner", "phone", "kiosk", "api", "email")
SEED = 20_240

FILE_ROWS = 100_000
# W5: epochs measured per size of the state, and those before that warm the JVM up, once.
GROWTH_EPOCHS = 10
GROWTH_WARMING_EPOCHS = 20

SCHEMA = pa.schema(
    [
        pa.field("auction", pa.int64()),
        pa.field("item", pa.int64()),
        pa.field("bidder", pa.int64()),
        pa.field("price", pa.int64()),
        pa.field("channel", pa.string()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True)
class FileSpec:
    """One file: rows [first, first + rows); items in [item_low, item_high)."""

    first: int
    rows: int
    item_low: int
    item_high: int
    # The items are the consecutive ones from `item_low`: every key of the range exactly once.
    consecutive: bool = False
    # Items are drawn without repetition: `rows` different keys.
    distinct: bool = False


@dataclass(frozen=True)
class DataSet:
    """A folder of files; `files` are in the order in which they are read."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    specs: tuple[FileSpec, ...]
    format: str

    @property
    def rows(self) -> int:
        return sum(spec.rows for spec in self.specs)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files)


def bids(
    root: Path,
    *,
    rows: int,
    keys: int,
    file_rows: int = FILE_ROWS,
    data_format: str = "parquet",
) -> DataSet:
    """Return the bids of W1, W2 and W7: items drawn from `keys` at random."""
    specs = tuple(
        FileSpec(first=first, rows=min(file_rows, rows - first), item_low=0, item_high=keys)
        for first in range(0, rows, file_rows)
    )
    return make(root, f"bids-{rows}-{keys}-{file_rows}-{data_format}", specs, data_format)


def growth(root: Path, *, sizes: Sequence[int], changed: int, fill: int) -> DataSet:
    """Return the files of W5: fill the state up to each size, then change `changed` keys per file.

    One file is one micro-batch and one epoch, for every system. At the first size there are more
    of them than are measured: a JVM that is still warming up would make growth look cheap.
    """
    specs: list[FileSpec] = []
    first = filled = 0
    epochs = GROWTH_WARMING_EPOCHS + GROWTH_EPOCHS
    for size in sizes:
        while filled < size:
            rows = min(fill, size - filled)
            specs.append(FileSpec(first, rows, filled, filled + rows, consecutive=True))
            first, filled = first + rows, filled + rows
        for _ in range(epochs):
            specs.append(FileSpec(first, changed, 0, size, distinct=True))
            first += changed
        epochs = GROWTH_EPOCHS
    label = "-".join(str(size) for size in sizes)
    return make(root, f"growth-{label}-{changed}-{fill}", tuple(specs), "parquet")


def make(root: Path, name: str, specs: tuple[FileSpec, ...], data_format: str) -> DataSet:
    """Write the files unless they are there, whole and of this generator."""
    place = root / f"v{GENERATOR_VERSION}-{name}"
    suffix = "parquet" if data_format == "parquet" else "jsonl"
    folder = place / "files"
    files = tuple(folder / f"part-{number:05}.{suffix}" for number in range(len(specs)))
    data = DataSet(name, folder, files, specs, data_format)
    wanted = json.dumps([asdict(spec) for spec in specs])
    marker = place / "complete.json"
    if marker.exists() and marker.read_text() == wanted:
        return data
    shutil.rmtree(place, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, (path, spec) in enumerate(zip(files, specs, strict=True)):
        table = rows_of(spec)
        if data_format == "parquet":
            pq.write_table(table, path, compression="snappy")
        else:
            write_json(table, path)
        # Structured Streaming reads files in the order of their times: these say it exactly.
        moment_s = START_US // 1_000_000 + number
        os.utime(path, (moment_s, moment_s))
    marker.write_text(wanted)
    return data


def rows_of(spec: FileSpec) -> pa.Table:
    """Return the rows of one file."""
    random = np.random.Generator(np.random.Philox(key=[SEED, spec.first]))
    numbers = np.arange(spec.first, spec.first + spec.rows, dtype=np.int64)
    late = random.integers(0, DISORDER_US, spec.rows, dtype=np.int64)
    times = START_US + numbers * MICROSECONDS_PER_ROW - late
    channels = pa.DictionaryArray.from_arrays(
        pa.array(random.integers(0, len(CHANNELS), spec.rows, dtype=np.int32)),
        pa.array(CHANNELS),
    )
    return pa.table(
        {
            "auction": random.integers(0, AUCTIONS, spec.rows, dtype=np.int64),
            "item": _items(spec, random),
            "bidder": random.integers(0, BIDDERS, spec.rows, dtype=np.int64),
            "price": random.integers(1, 10_000_000, spec.rows, dtype=np.int64),
            "channel": channels.cast(pa.string()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        },
        schema=SCHEMA,
    )


def _items(
    spec: FileSpec, random: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if spec.consecutive:
        return np.arange(spec.item_low, spec.item_high, dtype=np.int64)
    if spec.distinct:
        return random.choice(spec.item_high, spec.rows, replace=False).astype(np.int64)
    return random.integers(spec.item_low, spec.item_high, spec.rows, dtype=np.int64)


def write_json(table: pa.Table, path: Path) -> None:
    """Write one object per line; the time as `2023-11-14T22:13:20.000000Z`."""
    pieces: list[pa.Array | str] = []
    for index, field in enumerate(table.schema):
        opening = "{" if index == 0 else ","
        quote = '"' if field.name in ("channel", "ts") else ""
        pieces.append(f'{opening}"{field.name}":{quote}')
        pieces.append(_text(table.column(field.name).combine_chunks()))
        pieces.append(quote)
    lines = pc.binary_join_element_wise(*pieces, "}", "")
    with open(path, "wb") as file:
        file.write("\n".join(lines.to_pylist()).encode())
        file.write(b"\n")


def _text(values: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        return pc.strftime(values, format="%Y-%m-%dT%H:%M:%SZ")
    return values.cast(pa.string())
