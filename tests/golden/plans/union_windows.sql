-- UNION ALL of windows, aggregated once more.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
SELECT window, sum(n) AS events FROM (
  SELECT tumble(interval '1 minute') AS window, count(*) AS n FROM rides GROUP BY 1
  UNION ALL
  SELECT tumble(interval '1 minute') AS window, count(*) AS n FROM bids GROUP BY 1) GROUP BY window;
