"""W6 for Structured Streaming: the same copy of rows, as fast as its micro-batches go."""

from __future__ import annotations

from bench import machine
from bench.child import parse, report
from bench.latency import LiveFeeder, idle_cpu, latencies, result
from bench.peers.streaming_recovery import published
from bench.peers.structured_streaming import session


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    feeder = LiveFeeder(task.work / "feed")
    spark = session(task)
    rows = spark.readStream.schema("id long, ts timestamp").parquet(str(feeder.folder))
    writer = rows.where("id >= 0").writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", str(task.output))
    query = writer.option("checkpointLocation", str(task.work / "checkpoint")).start()
    measured = latencies(feeder, lambda: published(task.output))
    idle = idle_cpu()
    query.stop()
    spark.stop()
    report(task, result(task, "Structured Streaming", measured, idle), load_before)


if __name__ == "__main__":
    main()
