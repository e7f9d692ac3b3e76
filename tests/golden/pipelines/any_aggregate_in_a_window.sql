CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT shop, window.start AS started, middle, spread, items FROM (
  SELECT shop, tumble(interval '20 seconds') AS window, median(amount) AS middle,
         stddev(price) AS spread, count(DISTINCT item) AS items
  FROM orders GROUP BY shop, window);
