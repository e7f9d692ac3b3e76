-- The three best of every window.
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
SELECT auction, n, rank FROM (
  SELECT auction, n, window, row_number() OVER (PARTITION BY window ORDER BY n DESC, auction) AS rank FROM (
    SELECT auction, count(*) AS n, tumble(interval '1 minute') AS window FROM bids GROUP BY 1, 3))
WHERE rank <= 3;
