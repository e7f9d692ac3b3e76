-- Facts and changes into one sink.
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT, status TEXT) WITH (
  connector = 'single_file', path = 'orders.json', format = 'debezium_json', type = 'source');
CREATE TABLE out (who BIGINT, n BIGINT) WITH (
  connector = 'single_file', path = 'out.json', format = 'debezium_json', type = 'sink');
INSERT INTO out SELECT customer, count(*) FROM orders GROUP BY customer;
INSERT INTO out SELECT bidder, price FROM bids WHERE price > 100;
