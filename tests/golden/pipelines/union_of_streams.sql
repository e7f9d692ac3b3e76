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
SELECT shop, window.start AS started, n FROM (
  SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM (
    SELECT shop FROM orders UNION ALL SELECT shop FROM clicks) GROUP BY 1, 2);
