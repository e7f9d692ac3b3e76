"""The built-in sinks keep the contract that every sink must keep."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq

from headgate.connectors.base import Sink
from headgate.testing import SinkContract, open_sink


def visible_files(place: Path) -> list[Path]:
    """Files that a reader finds: what begins with a dot is not finished."""
    return sorted(p for p in place.rglob("*") if p.is_file() and not p.name.startswith("."))


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    if path.suffix == ".parquet":
        return [(r["n"], r["word"]) for r in pq.read_table(path, partitioning=None).to_pylist()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [(int(r["n"]), r["word"]) for r in csv.DictReader(file)]
    return [(r["n"], r["word"]) for r in map(json.loads, path.read_text().splitlines())]


class _Files(SinkContract):
    """A sink whose target is files."""

    connector: ClassVar[str]
    options: ClassVar[dict[str, Any]]
    name: ClassVar[str] = "out"

    def open(self, place: Path) -> Sink:
        return open_sink(
            self.connector, {"path": str(place / self.name), **self.options}, self.columns
        )

    def visible(self, place: Path) -> list[tuple[Any, ...]]:
        return [row for path in visible_files(place) for row in rows_in(path)]


class TestSingleFileJson(_Files):
    connector = "single_file"
    options: ClassVar = {"format": "json"}
    name = "out.json"


class TestSingleFileCsv(_Files):
    connector = "single_file"
    options: ClassVar = {"format": "csv"}
    name = "out.csv"


class TestFilesystemParquet(_Files):
    connector = "filesystem"
    target = "many_jobs"
    options: ClassVar = {"format": "parquet"}


class TestFilesystemCsv(_Files):
    connector = "filesystem"
    target = "many_jobs"
    options: ClassVar = {"format": "csv"}


class TestFilesystemPartitions(_Files):
    connector = "filesystem"
    target = "many_jobs"
    options: ClassVar = {"format": "json", "partition_by": "word"}


class TestPreview(_Files):
    connector = "preview"
    target = "anyone"
    guarantee = "at_least_once"
    options: ClassVar = {}
