"""Spark Structured Streaming, as its documentation advises for large state: RocksDB with changelog
checkpoints. Micro-batches of a fixed number of files until the folder is read (`availableNow`).

W1 writes Parquet in append mode. W2 runs in update mode into the `noop` sink, which computes every
row on the JVM and drops it: the least a sink can cost, so the comparison favours the peer. What W2
computed is read afterwards from its state, with Spark's own state reader.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from bench import check, machine
from bench.child import CORES, DRIVER_MEMORY, Task, parse, report
from bench.results import Batch, RunResult

COLUMNS = "auction long, item long, bidder long, price long, channel string, ts timestamp"
PROVIDERS = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
SECONDS_MAX = 3_600


def session(task: Task) -> SparkSession:
    """Start Spark with two cores and two partitions of state."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS[task.store],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.sql.warehouse.dir": str(task.work / "warehouse"),
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("structured streaming")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def source(spark: SparkSession, task: Task) -> DataFrame:
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", task.files_per_batch)
    return reader.format(task.data_format).load(str(task.folder))


def start(task: Task, rows: DataFrame, *, growing: bool = False) -> StreamingQuery:
    if task.query == "window":
        answer = (
            rows.withWatermark("ts", "5 seconds")
            .groupBy("auction", F.window("ts", "10 seconds"))
            .agg(F.count(F.lit(1)).alias("bids"), F.max("price").alias("highest"))
            .selectExpr("auction", "window.start AS start", "bids", "highest")
        )
        writer = answer.writeStream.format("parquet").outputMode("append")
        writer = writer.option("path", str(task.output))
    else:
        answer = rows.groupBy("item").agg(F.count(F.lit(1)).alias("bids"))
        writer = answer.writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(task.work / "checkpoint"))
    if growing:
        return writer.start()
    return writer.trigger(availableNow=True).start()


def batches(progress: list[dict[str, Any]], began: float) -> tuple[Batch, ...]:
    found = []
    for each in progress:
        triggered = datetime.fromisoformat(each["timestamp"]).timestamp() - began
        parts = {name: float(ms) for name, ms in each["durationMs"].items()}
        ended = triggered + parts["triggerExecution"] / 1000
        # Every micro-batch of Structured Streaming commits its state.
        found.append(Batch(int(each["numInputRows"]), triggered, ended, True, parts))
    return tuple(found)


def checked(spark: SparkSession, task: Task, progress: list[dict[str, Any]]) -> str:
    """Compare the sink's files, or the state, with the batch computation."""
    if task.query == "window":
        # The query stops with the last windows open: only those that its watermark closed count.
        moment = datetime.fromisoformat(progress[-1]["eventTime"]["watermark"])
        right = check.closed_by(
            check.expected_window(task.folder), round(moment.timestamp() * 1_000_000)
        )
        return check.compare(check.ordered(check.read_parquet_output(task.output), "window"), right)
    state = spark.read.format("statestore").load(str(task.work / "checkpoint"))
    rows: pa.Table = state.selectExpr("key.item AS item", "value.count AS bids").toArrow()
    return check.compare(check.ordered(rows, "keyed"), check.expected_keyed(task.folder))


def facts(task: Task, progress: list[dict[str, Any]]) -> dict[str, Any]:
    total, files = machine.folder_size(Path(task.work / "checkpoint"))
    last = progress[-1]["stateOperators"][0]
    return {
        "checkpoint_bytes": total,
        "checkpoint_objects": files,
        "checkpoints": len(progress),
        "state_rows": last["numRowsTotal"],
        "rows_late": sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in progress),
        "store": task.store,
    }


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    spark = session(task)
    rows = source(spark, task)
    sampler = machine.CpuSampler()
    sampler.start()
    began = time.time()
    query = start(task, rows)
    if not query.awaitTermination(SECONDS_MAX):
        query.stop()
        raise TimeoutError(f"the query did not end within {SECONDS_MAX} s")
    seconds = time.time() - began
    cpu = sampler.stop()
    # Each entry is a StreamingQueryProgress; its JSON is the stable form.
    progress = [json.loads(each.json) for each in query.recentProgress]
    answer = checked(spark, task, progress)
    spark.stop()
    report(
        task,
        RunResult(
            system="Structured Streaming" + (", HDFS store" if task.store == "hdfs" else ""),
            workload=task.workload,
            variant=task.variant,
            rows=sum(int(each["numInputRows"]) for each in progress),
            seconds=seconds,
            batches=batches(progress, began),
            checked=answer,
            cpu=tuple(cpu),
            facts=facts(task, progress),
        ),
        load_before,
    )


if __name__ == "__main__":
    main()
