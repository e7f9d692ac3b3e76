-- LEFT join of two windows.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
SELECT a.window.start AS hour, a.driver, a.rides, b.bids
FROM (SELECT tumble(interval '1 hour') AS window, driver, count(*) AS rides FROM rides GROUP BY 1, 2) a
LEFT JOIN (SELECT tumble(interval '1 hour') AS window, bidder, count(*) AS bids FROM bids GROUP BY 1, 2) b
ON a.driver = b.bidder;
