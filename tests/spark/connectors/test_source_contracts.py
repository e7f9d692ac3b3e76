"""The built-in sources keep the contract that every source must keep."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.connectors.base import Source
from headgate.connectors.impulse.config import IMPULSE_COLUMNS
from headgate.connectors.nexmark.config import NEXMARK_COLUMNS
from headgate.testing import SourceContract, columns, open_source


class TestSingleFileJson(SourceContract):
    columns = columns(n="bigint!", s="string")
    input = "fixed"

    def open(self, place: Path) -> Source:
        return open_source("single_file", {"path": str(place / "in.json")}, self.columns)

    def fill(self, place: Path, rows: int) -> None:
        with (place / "in.json").open("a") as file:
            for n in range(rows):
                file.write(json.dumps({"n": n, "s": "x" * (n % 13)}) + "\n")


class TestSingleFileCsv(TestSingleFileJson):
    def open(self, place: Path) -> Source:
        options = {"path": str(place / "in.csv"), "format": "csv"}
        return open_source("single_file", options, self.columns)

    def fill(self, place: Path, rows: int) -> None:
        path = place / "in.csv"
        header = "" if path.exists() else "n,s\n"
        with path.open("a") as file:
            file.write(header + "".join(f"{n},x{n}\n" for n in range(rows)))


class _Folder(SourceContract):
    """Files of five rows each, whose times follow the order of their names."""

    columns = columns(n="bigint", at="timestamp")
    input = "growing"
    indivisible_rows = 5
    options: ClassVar[dict[str, Any]]

    def open(self, place: Path) -> Source:
        return open_source("filesystem", {"path": str(place), **self.options}, self.columns)

    def fill(self, place: Path, rows: int) -> None:
        for _ in range(rows // 5):
            number = len(list(place.iterdir()))
            path = place / f"{number:04}.{self.options['format']}"
            self.write(path, range(5 * number, 5 * number + 5))
            os.utime(path, (1_000 + number, 1_000 + number))

    def write(self, path: Path, numbers: range) -> None:
        # All numbers have as many digits, so that the guess from the bytes is exact.
        path.write_text("".join(f'{{"n": {1_000 + n}, "at": {n}}}\n' for n in numbers))


class TestFolderOfJsonThatForgets(_Folder):
    options: ClassVar = {"format": "json", "source.remember_files": 3}
    counts_rows = False


class TestBoundedFolderOfJson(_Folder):
    options: ClassVar = {"format": "json", "source.read_mode": "bounded"}
    input = "fixed"
    counts_rows = False


class TestFolderOfParquet(_Folder):
    options: ClassVar = {"format": "parquet"}
    ordered = False

    def write(self, path: Path, numbers: range) -> None:
        times = pa.array(
            [datetime.fromtimestamp(n, UTC) for n in numbers], pa.timestamp("us", tz="UTC")
        )
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64()), "at": times}), path)


class TestImpulse(SourceContract):
    columns = IMPULSE_COLUMNS
    input = "generated"

    def open(self, place: Path) -> Source:
        return open_source("impulse", {"message_count": self.rows, "start_time": 0})


class TestNexmark(SourceContract):
    columns = NEXMARK_COLUMNS
    input = "generated"
    rows = 60

    def open(self, place: Path) -> Source:
        return open_source("nexmark", {"events": self.rows, "start_time": 0})
