"""`python -m bench.postgres`: the postgres sink beside a plain binary COPY of the same rows.

A server of its own, on loopback. Rounds take turns, so that a busy machine is busy for all of them;
the medians are compared. The sink's time has everything that a job pays: encoding, on one core,
and then the publish with its commit. In a job the tasks encode, on all cores, and the publish alone
is the driver's: that is the line "staged before". The plain COPY is psycopg's, row by row, and the
server works at the same time; the last line is the most that the server takes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa

from bench import machine
from headgate.connectors.base import Sink
from headgate.connectors.postgres.encode import HEADER, TRAILER, WireColumn, encode_rows
from headgate.connectors.postgres.types import WireType
from headgate.core.ids import JobId
from headgate.testing import StagedEpoch, columns, open_sink, stage_epoch
from tests.support.postgres import find_binaries, postgres_server

# As many as Spark gives a Python worker at once.
BATCH_ROWS = 10_000
TYPES = {"n": "bigint", "word": "string", "amount": "double"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    binaries = find_binaries()
    if binaries is None:
        raise SystemExit("no Postgres server is installed here: run `make servers`")
    print(f"{os.cpu_count()} cores, load average {machine.load_average():.1f} at the start")
    with (
        postgres_server(binaries) as server,
        psycopg.connect(server.url, autocommit=True) as connection,
    ):
        measured = measure(server.url, connection, arguments.rows, arguments.rounds)
    print(f"{arguments.rows:,} rows of {', '.join(TYPES.values())}; medians of {arguments.rounds}")
    plain = measured["plain COPY"]
    for name, seconds in measured.items():
        print(f"  {name:28} {arguments.rows / seconds:12,.0f} rows/s   {plain / seconds:5.2f}")
    print(f"load average {machine.load_average():.1f} at the end; the ratio is to the plain COPY")


def measure(
    url: str, connection: psycopg.Connection[Any], rows: int, rounds: int
) -> dict[str, float]:
    """Return the median seconds of each way."""
    batch = make_rows(rows)
    values = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    ready = b"".join(bytes(piece) for piece in encode_rows(batch, WIRE))
    staged: dict[str, StagedEpoch] = {}
    append, upsert = SinkRounds(url, "append", ()), SinkRounds(url, "upsert", ("n",))
    ways: dict[str, Callable[[], None]] = {
        "plain COPY": lambda: plain_copy(connection, values),
        "sink, append": lambda: append.stage(batch).publish(),
        "sink, append, staged before": lambda: staged["append"].publish(),
        "sink, upsert of new rows": lambda: upsert.stage(batch).publish(),
        "COPY of bytes that are ready": lambda: ready_copy(connection, ready),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            for table in ("plain", "append", "upsert"):
                connection.execute(f"TRUNCATE {table}".encode())
            staged["append"] = append.stage(batch)
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in seconds.items()}


WIRE = [
    WireColumn("n", WireType("int8")),
    WireColumn("word", WireType("text")),
    WireColumn("amount", WireType("float8")),
]


def make_rows(rows: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "n": pa.array(range(rows), pa.int64()),
            "word": pa.array([f"word {n * 7919 % 10_007}" for n in range(rows)]),
            "amount": pa.array([n / 7 for n in range(rows)], pa.float64()),
        }
    )


class SinkRounds:
    """One sink, and an epoch for each round."""

    def __init__(self, url: str, table: str, key: tuple[str, ...]) -> None:
        options = {"url": url, "table": table, "create_table": True}
        self.sink: Sink = open_sink("postgres", options, columns(**TYPES), primary_key=key)
        self._job = JobId(table)
        self.sink.check_target(self._job, resuming=False)
        with psycopg.connect(url) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS plain (n int8, word text, amount float8)"
            )
        self._epoch = 0

    def stage(self, batch: pa.RecordBatch) -> StagedEpoch:
        self._epoch += 1
        parts = [batch.slice(i, BATCH_ROWS) for i in range(0, batch.num_rows, BATCH_ROWS)]
        return stage_epoch(self.sink, self._epoch, parts, job=self._job)


def plain_copy(connection: psycopg.Connection[Any], values: list[tuple[Any, ...]]) -> None:
    with connection.cursor().copy("COPY plain FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "text", "float8"])
        for row in values:
            copy.write_row(row)


def ready_copy(connection: psycopg.Connection[Any], ready: bytes) -> None:
    with connection.cursor().copy("COPY plain FROM STDIN (FORMAT binary)") as copy:
        for part in (HEADER, ready, TRAILER):
            copy.write(part)


if __name__ == "__main__":
    main()
