-- An updating aggregate into a sink of changes.
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
CREATE TABLE out (channel TEXT, n BIGINT, total BIGINT, mean DOUBLE) WITH (
  connector = 'single_file', path = 'out.json', format = 'debezium_json', type = 'sink');
SET updating_ttl = interval '1 hour';
INSERT INTO out SELECT channel, count(*), sum(price), avg(price) FROM bids GROUP BY channel;
