-- A tumbling window with partials.
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
CREATE TABLE out (auction BIGINT, start TIMESTAMP, n BIGINT, top BIGINT, mean DOUBLE) WITH (
  connector = 'single_file', path = 'out.json', format = 'json', type = 'sink');
INSERT INTO out
SELECT auction, window.start, n, top, mean FROM (
  SELECT auction, tumble(interval '10 seconds') AS window, count(*) AS n, max(price) AS top, avg(price) AS mean
  FROM bids GROUP BY 1, 2);
