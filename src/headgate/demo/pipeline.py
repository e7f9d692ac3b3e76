"""The pipeline of the demo: bids of the Nexmark auction site, per auction and ten seconds."""

from __future__ import annotations

EVENTS = 2_000_000
START_TIME = "2024-01-01T00:00:00Z"

SQL = """
CREATE TABLE site WITH (
  connector = 'nexmark', message_count = {events}, start_time = '{start_time}',
  event_time_interval = interval '1 millisecond'
);

CREATE TABLE auction_activity (
  auction BIGINT, window_start TIMESTAMP, bids BIGINT, highest BIGINT, total BIGINT
) WITH (
  connector = 'filesystem', path = '{output}', format = 'parquet', type = 'sink'
);

INSERT INTO auction_activity
SELECT auction, window.start, bids, highest, total FROM (
  SELECT bid.auction AS auction, tumble(interval '10 seconds') AS window,
         count(*) AS bids, max(bid.price) AS highest, sum(bid.price) AS total
  FROM site WHERE bid IS NOT NULL
  GROUP BY 1, 2
);
"""


def sql_text(events: int, output: str) -> str:
    return SQL.format(events=events, start_time=START_TIME, output=output)
