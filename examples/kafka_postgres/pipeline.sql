-- Orders come from a topic of Kafka. Sales of each shop go to another topic, once a window of ten
-- seconds is over. What each customer has spent is in a table of Postgres, always up to date.
CREATE TABLE orders (
  shop TEXT NOT NULL, customer TEXT NOT NULL, amount BIGINT NOT NULL, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL '60 seconds'
) WITH (
  connector = 'kafka', type = 'source', bootstrap_servers = '$kafka', topic = 'orders',
  'source.offset' = 'earliest', 'source.group_id' = 'demo'
);

CREATE TABLE sales (shop TEXT, started TIMESTAMP, orders BIGINT, total BIGINT) WITH (
  connector = 'kafka', type = 'sink', bootstrap_servers = '$kafka', topic = 'sales',
  'sink.key_field' = 'shop', 'sink.create_topic' = true, 'json.timestamp_format' = 'unix_millis'
);

CREATE TABLE customers (customer TEXT PRIMARY KEY, orders BIGINT, total BIGINT) WITH (
  connector = 'postgres', type = 'sink', url = '$postgres', table = 'customers',
  create_table = true
);

INSERT INTO sales
SELECT shop, window.start, orders, total FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders, sum(amount) AS total
  FROM orders GROUP BY shop, window
);

INSERT INTO customers
SELECT customer, count(*), sum(amount) FROM orders GROUP BY customer;
