-- Changes passed through with a filter.
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT, status TEXT) WITH (
  connector = 'single_file', path = 'orders.json', format = 'debezium_json', type = 'source');
CREATE TABLE out (id BIGINT PRIMARY KEY, amount BIGINT) WITH (
  connector = 'single_file', path = 'out.json', format = 'debezium_json', type = 'sink');
INSERT INTO out SELECT id, amount * 2 FROM orders WHERE status = 'paid';
