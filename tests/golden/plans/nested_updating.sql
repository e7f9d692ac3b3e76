-- An aggregate of an updating aggregate, filtered.
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
SELECT n, count(*) AS bidders FROM (SELECT bidder, count(*) AS n FROM bids GROUP BY bidder) WHERE n > 1 GROUP BY n;
