"""The two queries as Headgate SQL."""

from __future__ import annotations

from bench.child import CORES, DRIVER_MEMORY, Task
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec

BIDS = """
CREATE TABLE bids (
  auction BIGINT, item BIGINT, bidder BIGINT, price BIGINT, channel TEXT, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (
  connector = 'filesystem', type = 'source', path = '{folder}', format = '{data_format}',
  'source.read_mode' = 'bounded'
);
"""

# The same compression as Structured Streaming's sink has.
WINDOW = """
CREATE TABLE answer (auction BIGINT, start TIMESTAMP, bids BIGINT, highest BIGINT) WITH (
  connector = 'filesystem', type = 'sink', path = '{output}', format = 'parquet',
  'parquet.compression' = 'snappy'
);
INSERT INTO answer
SELECT auction, window.start, bids, highest FROM (
  SELECT auction, tumble(interval '10 seconds') AS window, count(*) AS bids, max(price) AS highest
  FROM bids GROUP BY auction, window
);
"""

KEYED = """
CREATE TABLE answer (item BIGINT, bids BIGINT) WITH (connector = 'blackhole', type = 'sink');
INSERT INTO answer SELECT item, count(*) FROM bids GROUP BY item;
"""


def sql(task: Task) -> str:
    """Return the pipeline of a run."""
    text = BIDS + (WINDOW if task.query == "window" else KEYED)
    return text.format(folder=task.folder, data_format=task.data_format, output=task.output)


def job_spec(task: Task, text: str, limits: Limits) -> JobSpec:
    """Return the job of a run of the whole system, its state in the run's own folder."""
    return JobSpec(
        name="bench",
        sql=text,
        state_url=str(task.work / "state"),
        parallelism=CORES,
        limits=limits,
        master=f"local[{CORES},4]",
        spark_conf={
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.warehouse.dir": str(task.work / "warehouse"),
        },
    )
