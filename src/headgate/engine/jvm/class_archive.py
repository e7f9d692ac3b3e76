"""A class archive for Spark's JVM, made once: `python -m headgate.engine.jvm.class_archive`.

Most of what Spark does in its first seconds is to load and verify some fifteen thousand classes.
The JVM can keep them in a file, ready to be mapped (class data sharing): that about halves the
processor time of a start, and so of every recovery. The archive lies in the Python environment
whose Spark it was made from. Without it everything works, a few seconds later; an archive of
another JVM is ignored by the JVM itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

EXIT_SECONDS = 300.0
# Many classes cannot be kept, which is no news to anybody.
_QUIET = "-Xlog:cds*=off"


def archive_path() -> Path:
    """Return where this environment's archive is, or would be."""
    return Path(sys.prefix) / "share" / "headgate" / f"spark-{pyspark.__version__}.jsa"


def java_options() -> str:
    """Return the options that make a JVM use the archive; none if there is no archive."""
    path = archive_path()
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path.exists() else ""


def rehearse(spark: SparkSession, folder: str) -> None:
    """Do a little of everything that jobs do, so that its classes are loaded and its code warm."""
    path = os.path.join(folder, "rehearsal")
    rows = spark.range(0, 1_000, 1, 2).selectExpr(
        "id AS k",
        "id % 7 AS g",
        "cast(id AS string) AS t",
        "timestamp_millis(id * 10) AS _timestamp",
        "cast(id AS double) AS d",
    )
    rows.write.mode("overwrite").parquet(path)
    read = spark.read.schema(rows.schema).parquet(path)
    observed = read.observe("seen", *_columns("max(unix_micros(_timestamp)) AS w", "count(1) AS n"))
    bins = observed.where("k >= 0").groupBy("g", *_columns("unix_micros(_timestamp) div 1000 AS b"))
    sums = bins.agg(*_columns("count(1) AS n", "max(k) AS m", "sum(d) AS s")).selectExpr(
        "*", "hash(g, b) AS _hash"
    )
    mapped = sums.mapInArrow(lambda batches: batches, sums.schema)
    lines = mapped.selectExpr("g", "b", "n", "to_json(struct(*)) AS value")
    parsed = lines.selectExpr("from_json(value, 'g BIGINT, n BIGINT') AS v", "g").selectExpr("v.*")
    ranked = parsed.selectExpr("g", "row_number() OVER (PARTITION BY g ORDER BY n) AS r")
    joined = ranked.join(mapped, "g").repartition(2, "g").selectExpr("g", "r")
    joined.union(ranked).mapInArrow(lambda batches: batches, "g long, r int").collect()


def _columns(*exprs: str) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.expr(expr) for expr in exprs]


def make_archive(path: Path) -> None:
    """Start Spark, let it do what jobs do, and have the JVM write down its classes as it ends."""
    from headgate.core.messages import RunSettings
    from headgate.engine.jvm.session import start_session

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with tempfile.TemporaryDirectory(prefix="headgate-archive-") as folder:
        settings = RunSettings(
            state_url="",
            scratch_dir=folder,
            spark_conf={
                "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={temporary} {_QUIET}",
                "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
            },
        )
        spark = start_session(settings, parallelism=2, app_name="headgate class archive")
        gateway: Any = spark.sparkContext._gateway
        rehearse(spark, folder)
        spark.stop()
        # The JVM ends when its standard input does, and writes the archive then.
        gateway.shutdown()
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(EXIT_SECONDS)
        finally:
            gateway.proc.kill()
    temporary.replace(path)


def main() -> int:
    path = archive_path()
    if path.exists():
        return 0
    started = time.monotonic()
    print("Preparing Spark for fast starts (once)...", flush=True)
    try:
        make_archive(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"  left out, starts will be a few seconds slower: {error}", file=sys.stderr)
        return 0
    print(f"  {path.stat().st_size / 1e6:.0f} MB in {time.monotonic() - started:.0f} s: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
