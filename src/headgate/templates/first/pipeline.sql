-- Orders as they come: one JSON object per line. A row may be up to five seconds late.
CREATE TABLE orders (
  id BIGINT, shop TEXT, amount BIGINT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'orders.json', format = 'json', type = 'source');

-- What becomes of them: every line is written exactly once, whatever dies in between.
CREATE TABLE totals (shop TEXT, started TIMESTAMP, orders BIGINT, total BIGINT)
WITH (connector = 'single_file', path = 'totals.json', format = 'json', type = 'sink');

-- Orders and their sum, for every shop and every ten seconds.
INSERT INTO totals
SELECT shop, window.start, orders, total FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders, sum(amount) AS total
  FROM orders GROUP BY shop, window
);
