"""`python -m bench.kafka`: the kafka connector beside a plain client in one Python process.

A broker of its own, on loopback, and topics of two partitions with JSON of about 100 bytes. Rounds
take turns, so that a busy machine is busy for all of them; the first one warms up and does not
count. Medians are compared, each with its peer of the same run. Every answer is checked.

- source: a cut is planned and read as a micro-batch does, and added up by Spark. Its peer is a
  consumer that takes what `consume` gives into an Arrow array, and for JSON one that parses it.
- sink: an epoch that was staged is published exactly once, by the driver or by tasks. Its peer is a
  producer with the same settings that has the values ready, and writes them in one transaction.
- latency: from an event in one topic to its committed output in another.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from bench import machine
from bench.child import CORES, DRIVER_MEMORY
from bench.kafka_latency import measure_latency
from bench.kafka_sink import sink_ways
from bench.kafka_source import TOPIC, source_ways
from bench.kafka_topic import fill, values_of
from bench.ways import compare, show
from headgate.core.messages import RunSettings
from headgate.engine.jvm.session import start_session
from tests.support.kafka import Broker, cache_folder, jars, kafka_broker

PARTS = ("source", "sink", "latency")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--events-per-second", type=int, default=10_000)
    parser.add_argument("--intervals-ms", type=int, nargs="+", default=[1_000, 200])
    parser.add_argument(
        "--spark-connector",
        action="store_true",
        help="also Spark's own connector; scripts/install_spark_kafka.sh brings its jars",
    )
    arguments = parser.parse_args()
    if jars() is None:
        raise SystemExit("no Kafka broker is installed here: run `make servers`")
    theirs = find_spark_jars() if arguments.spark_connector else []
    print(f"{os.cpu_count()} cores, load average {machine.load_average():.1f} at the start")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, "broker")
        place.mkdir()
        with kafka_broker(place) as broker:
            measure_rates(Path(name), broker, arguments, theirs)
            for interval_ms in arguments.intervals_ms if "latency" in arguments.parts else ():
                rate = arguments.events_per_second
                print(measure_latency(Path(name), broker, interval_ms, rate), flush=True)
    print(f"load average {machine.load_average():.1f} at the end")


def measure_rates(
    folder: Path, broker: Broker, arguments: argparse.Namespace, theirs: Sequence[Path]
) -> None:
    """Measure source and sink, as far as they are asked for, in one Spark session."""
    if not {"source", "sink"} & set(arguments.parts):
        return
    rows, rounds = arguments.rows, arguments.rounds
    spark = start_spark(folder, theirs)
    try:
        if "source" in arguments.parts:
            values = values_of(rows)
            fill(broker, TOPIC, values)
            ways = source_ways(spark, broker, values, spark_connector=bool(theirs))
            print(f"source, {rows:,} messages; medians of {rounds}")
            show(ways, compare(ways, rounds, warm=True))
        if "sink" in arguments.parts:
            ways = sink_ways(spark, broker, folder, rows)
            print(f"sink, epochs of {rows:,} rows and of a tenth; medians of {rounds}")
            show(ways, compare(ways, rounds, warm=True))
    finally:
        spark.stop()


def start_spark(folder: Path, theirs: Sequence[Path]) -> SparkSession:
    """Start Spark as a worker does."""
    conf = {"spark.driver.memory": DRIVER_MEMORY, "spark.sql.warehouse.dir": str(folder / "spark")}
    if theirs:
        conf["spark.jars"] = ",".join(map(str, theirs))
    settings = RunSettings(
        state_url=str(folder / "state"),
        scratch_dir=str(folder / "scratch"),
        master=f"local[{CORES}]",
        spark_conf=conf,
    )
    return start_session(settings, parallelism=CORES, app_name="headgate bench")


def find_spark_jars() -> list[Path]:
    """Return the jars of Spark's own Kafka connector."""
    found = sorted((cache_folder() / "spark-kafka-4.2.0" / "jars").glob("*.jar"))
    if not found:
        raise SystemExit("run scripts/install_spark_kafka.sh, which brings Spark's connector")
    return found


if __name__ == "__main__":
    main()
