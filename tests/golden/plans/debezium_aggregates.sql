-- Aggregates over Debezium changes: signed sums, and rows for the rest.
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT, status TEXT) WITH (
  connector = 'single_file', path = 'orders.json', format = 'debezium_json', type = 'source');
SELECT status, count(*) AS n, sum(amount) AS total, avg(amount) AS mean FROM orders GROUP BY status;
SELECT customer, max(amount) AS largest, count(DISTINCT status) AS states FROM orders GROUP BY customer;
