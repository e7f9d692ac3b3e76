"""The truth: the same events as one Spark batch, compared row by row with what was published.

A process of its own, and none of the streaming engine: the connector generates the events, plain
Spark SQL computes the windows.
"""

from __future__ import annotations

import argparse
import sys

from headgate.connectors.registry import connector
from headgate.core.messages import RunSettings
from headgate.demo.pipeline import sql_text
from headgate.engine.jvm.session import start_session
from headgate.operators import SourceSpec
from headgate.planner import plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--events", required=True, type=int)
    arguments = parser.parse_args()
    settings = RunSettings(state_url="", scratch_dir="", master="local[*]")
    spark = start_session(settings, parallelism=4, app_name="headgate demo: batch check")
    (site,) = plan(sql_text(arguments.events, arguments.output)).sources()
    assert isinstance(site.spec, SourceSpec)
    source = connector("nexmark").open_source(site.spec)
    start = source.initial_position()
    end = source.plan_cut(start, arguments.events, 0).end
    source.read(spark, start, end, 4).createOrReplaceTempView("events")
    spark.read.parquet(arguments.output).createOrReplaceTempView("published")
    spark.sql(
        "SELECT bid.auction AS auction, w.start AS window_start, count(*) AS bids, "
        "max(bid.price) AS highest, sum(bid.price) AS total FROM "
        "(SELECT bid, window(bid.datetime, '10 seconds') AS w FROM events WHERE bid IS NOT NULL) "
        "GROUP BY 1, 2"
    ).createOrReplaceTempView("expected")
    counts = spark.sql(
        "SELECT (SELECT count(*) FROM expected), (SELECT count(*) FROM published), "
        "(SELECT count(*) FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM published)), "
        "(SELECT count(*) FROM (SELECT * FROM published EXCEPT ALL SELECT * FROM expected))"
    ).collect()[0]
    spark.stop()
    expected, published, missing, surplus = counts
    print(f"{expected} {published} {missing} {surplus}")
    return 0 if missing == 0 and surplus == 0 and expected > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
