"""What a micro-batch between two barriers costs, by where its changes wait.

    python -m bench.between_barriers [--batches 60] [--rows 20000] [--latency-ms 0]

The same micro-batches on this machine's Spark, with the changes in a folder (as on a local master)
and in the state store, an S3 API (as on hosts that share nothing). Every request to the S3 API goes
through a proxy that counts it; `--latency-ms` is what it adds to each, as a real store's distance
does. Each place is measured twice, in turns (folder, store, store, folder), after a round that does
not count: the machine that runs later is the warmer one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench import machine
from headgate.core.messages import RunSettings
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult
from headgate.engine.jvm.session import start_session
from headgate.planner import plan
from tests.support import harness
from tests.support.harness import PipelineHarness
from tests.support.s3 import FaultyProxy, s3_request, start_s3_server

PARALLELISM = 2
# The first micro-batches compile code and start Python workers.
WARM_UP = 10
KEYED = """
CREATE TABLE numbers (counter BIGINT) WITH (
  connector = 'filesystem', path = '{input}', format = 'parquet', type = 'source',
  'source.read_mode' = 'bounded'
);
CREATE TABLE answer (k BIGINT, n BIGINT) WITH (connector = 'blackhole', type = 'sink');
INSERT INTO answer
SELECT counter % {keys} AS k, count(*) AS n FROM numbers GROUP BY counter % {keys};
"""
BUFFERED = """
CREATE TABLE numbers (counter BIGINT) WITH (
  connector = 'filesystem', path = '{input}', format = 'parquet', type = 'source',
  'source.read_mode' = 'bounded'
);
CREATE TABLE answer (k BIGINT) WITH (
  connector = 'filesystem', path = '{output}', format = 'parquet', type = 'sink'
);
INSERT INTO answer SELECT counter AS k FROM numbers;
"""
QUERIES = {"keyed state": KEYED, "sink's buffer": BUFFERED}


@dataclass
class Place:
    """Where the changes wait, and what was measured there."""

    name: str
    shared_nothing: bool
    milliseconds: list[float] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    batches: int = 0


@contextmanager
def timed(place: Place, asked: Counter[str]) -> Iterator[None]:
    """Note every micro-batch without a barrier."""
    plain, of_this_round = harness._Engine.run, itertools.count(1)

    def run(engine: harness._Engine, request: BatchRequest, state: PipelineState) -> BatchResult:
        before, started = Counter(asked), time.perf_counter()
        result = plain(engine, request, state)
        elapsed_ms = (time.perf_counter() - started) * 1000
        if not request.context.barrier:
            place.batches += 1
            place.requests += asked - before
            if next(of_this_round) > WARM_UP:
                place.milliseconds.append(elapsed_ms)
        return result

    harness._Engine.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        harness._Engine.run = plain  # type: ignore[method-assign]


def measure(
    spark: SparkSession, text: str, place: Place, proxy: FaultyProxy, arguments: argparse.Namespace
) -> None:
    asked: Counter[str] = Counter()

    def counted(method: str) -> None:
        asked[method] += 1
        if arguments.latency_ms:
            time.sleep(arguments.latency_ms / 1000)

    proxy.fault = counted
    rows = arguments.batches * arguments.rows
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        # A file is a micro-batch.
        os.mkdir(f"{folder}/input")
        for number in range(arguments.batches):
            first = number * arguments.rows
            counters = pa.array(range(first, first + arguments.rows), pa.int64())
            pq.write_table(pa.table({"counter": counters}), f"{folder}/input/{number:06}.parquet")
        sql = text.format(input=f"{folder}/input", keys=arguments.keys, output=f"{folder}/output")
        job = PipelineHarness(spark, plan(sql), Path(folder), shared_nothing=place.shared_nothing)
        bucket = f"between-{time.time_ns()}"
        s3_request("PUT", f"{proxy.url}/{bucket}")
        job.use_store(f"s3://{bucket}/state")
        with timed(place, asked):
            outcome = job.run(parallelism=PARALLELISM, rows_per_batch=arguments.rows)
    assert outcome.finished, outcome.failures
    assert outcome.progress.rows_in == rows, outcome.progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=5_000)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    arguments = parser.parse_args()
    print(f"load {machine.load_average():.1f}, {arguments}")
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        server, endpoint = start_s3_server(Path(folder) / "s3.log")
        proxy = FaultyProxy(endpoint)
        os.environ |= {
            "AWS_ENDPOINT_URL": proxy.url,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1",
        }
        settings = RunSettings(state_url="", scratch_dir=f"{folder}/spark", master="local[2]")
        spark = start_session(settings, parallelism=PARALLELISM, app_name="between barriers")
        try:
            for query, text in QUERIES.items():
                measure(spark, text, Place("warm-up", True), proxy, arguments)
                folder_place, store_place = Place("folder", False), Place("state store", True)
                for place in (folder_place, store_place, store_place, folder_place):
                    measure(spark, text, place, proxy, arguments)
                for place in (folder_place, store_place):
                    print(line(query, place), flush=True)
        finally:
            spark.stop()
            proxy.close()
            server.kill()
            server.wait(timeout=30)


def line(query: str, place: Place) -> str:
    kinds = ", ".join(
        f"{count / place.batches:.2f} {method}" for method, count in sorted(place.requests.items())
    )
    low, middle, high = statistics.quantiles(place.milliseconds, n=4)
    return (
        f"{query:14} {place.name:12} p50 {middle:6.1f} ms (quartiles {low:.1f} to {high:.1f}), "
        f"requests per micro-batch: {kinds or 'none'}"
    )


if __name__ == "__main__":
    main()
