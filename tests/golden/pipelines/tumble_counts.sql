CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT shop, window.start AS started, window.end AS ended, orders, total, smallest, largest, average FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders, sum(amount) AS total,
         min(amount) AS smallest, max(amount) AS largest, avg(amount) AS average
  FROM orders GROUP BY 1, 2);
