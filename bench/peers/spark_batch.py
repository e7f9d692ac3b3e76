"""The limit: Spark's own batch computation over the same files, no state and no checkpoints.

It is repeated in one session; the first repetition warms the JVM, the best of the others counts.
W1 writes Parquet as the streams do; W2 goes into the `noop` sink.
"""

from __future__ import annotations

import shutil
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench import check, machine
from bench.child import CORES, DRIVER_MEMORY, Task, parse, report
from bench.peers.structured_streaming import COLUMNS
from bench.results import RunResult


def session(task: Task) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(task.work / "warehouse"),
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("spark batch")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def answer(task: Task, rows: DataFrame) -> DataFrame:
    if task.query == "window":
        grouped = rows.groupBy("auction", F.window("ts", "10 seconds"))
        counted = grouped.agg(F.count(F.lit(1)).alias("bids"), F.max("price").alias("highest"))
        return counted.selectExpr("auction", "window.start AS start", "bids", "highest")
    return rows.groupBy("item").agg(F.count(F.lit(1)).alias("bids"))


def once(spark: SparkSession, task: Task) -> tuple[float, float]:
    """Return the seconds and the processor seconds of one repetition."""
    shutil.rmtree(task.output, ignore_errors=True)
    spent = machine.tree_cpu_seconds()
    started = time.perf_counter()
    rows = spark.read.schema(COLUMNS).format(task.data_format).load(str(task.folder))
    writer = answer(task, rows).write.mode("overwrite")
    if task.query == "window":
        writer.parquet(str(task.output))
    else:
        writer.format("noop").save()
    return time.perf_counter() - started, machine.tree_cpu_seconds() - spent


def checked(spark: SparkSession, task: Task) -> str:
    if task.query == "window":
        found = check.ordered(check.read_parquet_output(task.output), "window")
        return check.compare(found, check.expected_window(task.folder))
    rows = spark.read.schema(COLUMNS).format(task.data_format).load(str(task.folder))
    found = check.ordered(answer(task, rows).toArrow(), "keyed")
    return check.compare(found, check.expected_keyed(task.folder))


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    spark = session(task)
    times = [once(spark, task) for _ in range(max(2, task.repeats))]
    best = min(times[1:])
    correct = checked(spark, task)
    rows = spark.read.format(task.data_format).schema(COLUMNS).load(str(task.folder)).count()
    spark.stop()
    report(
        task,
        RunResult(
            system="Spark batch (the limit)",
            workload=task.workload,
            variant=task.variant,
            rows=rows,
            seconds=best[0],
            checked=correct,
            cpu=(best,),
            facts={"cold_seconds": times[0][0], "warm_seconds": [t for t, _ in times[1:]]},
        ),
        load_before,
    )


if __name__ == "__main__":
    main()
