CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');
CREATE TABLE clicks (
  user TEXT, shop TEXT, page TEXT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/clicks.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT a.shop AS shop, b.shop AS other, a.orders, b.clicks FROM
  (SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders
   FROM orders WHERE amount > 200 GROUP BY 1, 2) a
LEFT JOIN
  (SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS clicks
   FROM clicks WHERE page = 'cart' GROUP BY 1, 2) b
ON a.shop = b.shop AND a.window = b.window;
