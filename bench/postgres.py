"""`python -m bench.postgres`: the postgres sink beside what psycopg alone does with the same rows.

A server of its own, on loopback. Rounds take turns, so that a busy machine is busy for all of them;
the medians are compared. The sink's time has everything that a job pays: encoding, on one core,
and then the publish with its commit. In a job the tasks encode, on all cores, and the publish alone
is the driver's: that is the line "staged before". The plain COPY is psycopg's, binary, row by row,
and the server works at the same time; "COPY of bytes that are ready" is the most that the server
takes. Rows with a key are compared with a plain COPY into a temporary table and a merge from there,
in one transaction. What is in the table afterwards is checked every time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa

from bench import machine
from bench.staging import stage_rows
from bench.ways import Way, compare, equals, show
from headgate.connectors.base import Sink
from headgate.connectors.postgres.encode import HEADER, TRAILER, WireColumn, encode_rows
from headgate.connectors.postgres.types import WireType
from headgate.core.ids import JobId
from headgate.testing import StagedEpoch, columns, open_sink
from tests.support.postgres import find_binaries, postgres_server

SUBTASKS = 2
TYPES = {"n": "bigint", "word": "string", "amount": "double"}
TABLES = ("plain", "merged", "append", "upsert")
MERGE = """
INSERT INTO merged SELECT n, word, amount FROM given
ON CONFLICT (n) DO UPDATE SET word = EXCLUDED.word, amount = EXCLUDED.amount
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if find_binaries() is None:
        raise SystemExit("no Postgres server is installed here: run `make servers`")
    print(f"{os.cpu_count()} cores, load average {machine.load_average():.1f} at the start")
    with (
        postgres_server() as server,
        psycopg.connect(server.url, autocommit=True) as connection,
    ):
        ways = make_ways(server.url, connection, arguments.rows)
        measured = compare(ways, arguments.rounds)
    print(f"{arguments.rows:,} rows of {', '.join(TYPES.values())}; medians of {arguments.rounds}")
    show(ways, measured)
    print(f"load average {machine.load_average():.1f} at the end")


def make_ways(url: str, connection: psycopg.Connection[Any], rows: int) -> dict[str, Way]:
    """Return the ways to write the rows, each into an empty table."""
    batch = make_rows(rows)
    values = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    ready = b"".join(bytes(piece) for piece in encode_rows(batch, WIRE))
    staged: dict[str, StagedEpoch] = {}
    connection.execute("CREATE TABLE plain (n int8, word text, amount float8)")
    connection.execute("CREATE TABLE merged (n int8 PRIMARY KEY, word text, amount float8)")
    append, upsert = SinkRounds(url, "append", ()), SinkRounds(url, "upsert", ("n",))

    def prepare() -> None:
        for table in TABLES:
            connection.execute(f"TRUNCATE {table}".encode())
        # An epoch that is not published is left out: they need not follow each other.
        staged.update(append=append.stage(batch), upsert=upsert.stage(batch))

    def way(peer: str, table: str, run: Callable[[], None]) -> Way:
        def check(_: None) -> None:
            found = connection.execute(f"SELECT count(*), sum(n)::int8 FROM {table}".encode())
            equals((rows, rows * (rows - 1) // 2))(found.fetchone())

        return Way(peer, rows, run, check, prepare)

    copy, merge = "plain COPY", "plain COPY and merge"
    return {
        copy: way(copy, "plain", lambda: plain_copy(connection, "plain", values)),
        "sink, append": way(copy, "append", lambda: append.stage(batch).publish()),
        "sink, append, staged before": way(copy, "append", lambda: staged["append"].publish()),
        "COPY of bytes that are ready": way(copy, "plain", lambda: ready_copy(connection, ready)),
        merge: way(merge, "merged", lambda: plain_merge(connection, values)),
        "sink, upsert of new rows": way(merge, "upsert", lambda: upsert.stage(batch).publish()),
        "sink, upsert, staged before": way(merge, "upsert", lambda: staged["upsert"].publish()),
    }


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
        self._epoch = 0

    def stage(self, batch: pa.RecordBatch) -> StagedEpoch:
        self._epoch += 1
        return stage_rows(
            self.sink, self._epoch, batch, job=self._job, subtasks=SUBTASKS, state=None
        )


def plain_copy(
    connection: psycopg.Connection[Any], table: str, values: list[tuple[Any, ...]]
) -> None:
    statement = f"COPY {table} (n, word, amount) FROM STDIN (FORMAT binary)"
    with connection.cursor().copy(statement.encode()) as copy:
        copy.set_types(["int8", "text", "float8"])
        for row in values:
            copy.write_row(row)


def plain_merge(connection: psycopg.Connection[Any], values: list[tuple[Any, ...]]) -> None:
    with connection.transaction():
        connection.execute(
            "CREATE TEMPORARY TABLE given (n int8, word text, amount float8) ON COMMIT DROP"
        )
        plain_copy(connection, "given", values)
        connection.execute(MERGE)


def ready_copy(connection: psycopg.Connection[Any], ready: bytes) -> None:
    with connection.cursor().copy("COPY plain FROM STDIN (FORMAT binary)") as copy:
        for part in (HEADER, ready, TRAILER):
            copy.write(part)


if __name__ == "__main__":
    main()
